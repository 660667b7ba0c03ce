// weft plan --reshard.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/plan_drawing.h"
#include "apps/cli/plan_text.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::apps {

int run_plan_reshard(const ReshardPlanOptions& options) {
  const ReshardProblem problem = parse_reshard_request(options.request);
  const transfer::ReshardAlgorithm strategy = transfer::parse_strategy(options.strategy);
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const transfer::ReshardPlan plan =
      transfer::plan_reshard(problem.task, problem.topology, problem.network, strategy);
  const double seconds = std::chrono::duration<double>(clock.now() - begin).count();
  const std::string text = options.json ? to_json(problem, plan, seconds).dump(2) + "\n"
                                        : describe_plan(problem, plan, seconds);
  std::fputs(text.c_str(), stdout);
  if (options.svg.empty()) return 0;
  draw_plan(plan, problem.network).write(options.svg);
  if (!options.json) std::printf("drawn in %s\n", options.svg.c_str());
  return 0;
}

}  // namespace weft::apps
