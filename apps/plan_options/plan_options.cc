#include "apps/plan_options/plan_options.h"

namespace weft::apps {

std::vector<std::string> PlanOptions::to_arguments() const {
  std::vector<std::string> arguments;
  if (!programs.empty()) arguments.push_back("--programs=" + programs);
  if (strategy) arguments.push_back("--strategy=" + *strategy);
  if (!layouts.empty()) arguments.push_back("--layouts=" + layouts);
  if (!svg.empty()) arguments.push_back("--svg=" + svg);
  return arguments;
}

PlanOptions PlanOptions::of(const actors::RoleArguments& arguments) {
  PlanOptions options;
  options.programs = arguments.get_or("programs", "");
  if (arguments.has("strategy")) options.strategy = arguments.get("strategy");
  options.layouts = arguments.get_or("layouts", "");
  options.svg = arguments.get_or("svg", "");
  return options;
}

}  // namespace weft::apps
