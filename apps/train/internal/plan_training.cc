#include "apps/train/internal/plan_training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/plan_options/plan_options.h"
#include "apps/run_files/progress_display.h"
#include "apps/train/compare_layouts.h"
#include "apps/train/layout_plot.h"
#include "apps/train/run_config.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/terminal.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/plan_text.h"

namespace weft::apps {
namespace {

/// Turns a device name of `weft status`, such as "front[data=0,tensor=1]", into "front[0,1]".
std::string without_axes(const std::string& device) {
  static const std::regex kAxis(R"(([\[,])[^=,\[\]]*=)");
  return std::regex_replace(device, kAxis, "$1");
}

/// Returns the program of one device, or of all.
std::string programs_text(const mesh::TrainingPlan& plan, const std::string& asked) {
  const std::string which = without_axes(asked);
  std::string text;
  std::vector<std::string> names;
  for (const mesh::Program& program : plan.train.programs) {
    names.push_back(program.device_name);
    if (which == PlanOptions::kAllPrograms || which == program.device_name)
      text += "\n" + to_string(program);
  }
  if (text.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "--programs {}: there is no such device, only {}{}",
                which, fmt::join(names, ", "), did_you_mean(which, names));
  }
  return text;
}

/// Returns the sharding of one mesh, or of all if `which` is empty, in the format of `layout:
/// FILE.strategy`.
std::string strategies_text(const mesh::TrainingPlan& plan, const std::string& which) {
  std::string text;
  std::vector<std::string> names;
  for (const mesh::MeshId mesh : plan.partition.meshes.ids()) {
    if (plan.partition.spans(mesh)) continue;
    names.push_back(plan.partition.meshes[mesh].name());
    if (!which.empty() && which != names.back()) continue;
    text += (text.empty() ? "" : "\n") + mesh::write_strategy(plan, mesh);
  }
  if (text.empty())
    throw_error(ErrorCode::kInvalidArgument, "--mesh {}: there is no such mesh, only {}{}", which,
                fmt::join(names, ", "), did_you_mean(which, names));
  return text;
}

/// Returns {"by": "NCCL 2.28.9"}, or {"by": "host memory", "reason": "device 3 is not a GPU"}.
nlohmann::ordered_json path_json(const mesh::TrainingPlan& plan, std::uint32_t op) {
  const transfer::PathChoice choice = mesh::path_of(plan, op);
  if (choice.path == transfer::PathChoice::Path::kCollectives)
    return {{"by", plan.collectives.library}};
  return {{"by", "host memory"}, {"reason", choice.reason}};
}

nlohmann::ordered_json plan_json(const RunConfig& config, const mesh::TrainingPlan& plan) {
  nlohmann::ordered_json json = {{"name", config.name},
                                 {"schedule", plan.schedule.name},
                                 {"searches_schedule", plan.layout.searches()},
                                 {"vocabulary", to_string(plan.layout.vocabulary)},
                                 {"microbatches", plan.layout.microbatches},
                                 {"duplex", to_string(plan.layout.duplex)},
                                 {"resharding", transfer::to_string(plan.layout.resharding)},
                                 {"hosts", plan.hosts}};
  for (const mesh::StageConfig& stage : plan.layout.stages)
    json["stages"].push_back(
        {{"mesh", plan.layout.meshes[stage.mesh].name}, {"layers", stage.layers}});
  for (const mesh::PlannedEdge& edge : plan.train.edges) {
    std::uint64_t sent = 0;
    for (const mesh::Program& program : plan.train.programs)
      sent += edge.plan.device_part(program.device).bytes_sent();
    const Value& value = plan.partition.graph.value(edge.edge.value);
    json["edges"].push_back({{"value", value.name},
                             {"type", to_string(value.type)},
                             {"pass", to_string(edge.edge.pass)},
                             {"from", plan.partition.meshes[edge.edge.from_mesh].name()},
                             {"to", plan.partition.meshes[edge.edge.to_mesh].name()},
                             {"flows", edge.plan.flows.size()},
                             {"bytes_sent_per_microbatch", sent},
                             {"path", path_json(plan, edge.op)}});
  }
  json["driver"] = {{"checkpoint_buffer_bytes", mesh::checkpoint_buffer_bytes(plan.checkpoint)},
                    {"checkpoint_parts", plan.checkpoint.size()},
                    {"trains_during_checkpoints", plan.copies_checkpoints()}};
  if (std::string why = plan.decisions.reason_declined(mesh::PlanQuestion::kCheckpointCopies);
      !why.empty())
    json["driver"]["pauses_because"] = std::move(why);
  for (const mesh::Program& program : plan.train.programs) {
    std::uint64_t persistent = 0;
    for (const mesh::PersistentBlock& block : program.persistents) persistent += block.bytes;
    json["devices"].push_back(
        {{"name", program.device_name},
         {"host", plan.hosts[plan.topology.host_of(program.device).value()]},
         {"instructions", program.instructions.size()},
         {"persistent_bytes", persistent},
         {"activation_bytes", program.arena_bytes},
         {"checkpoint_copy_bytes", mesh::checkpoint_copy_bytes(plan, program.device)},
         {"kept_state_bytes", mesh::snapshot_bytes(plan.snapshots, program.device)},
         {"program", to_string(program)}});
  }
  return json;
}

}  // namespace

int plan_training(const actors::AppRun& run, TrainingApp& app) {
  const auto [config, plan] = plan_run(run, app);
  const PlanOptions options = PlanOptions::of(run.more);
  if (!options.layouts.empty()) {
    std::vector<std::string> layouts;
    std::istringstream names(options.layouts);
    for (std::string name; std::getline(names, name, ',');) layouts.push_back(name);
    const std::vector<LayoutCosts> figures = compare_layouts(config, layouts);
    if (!options.svg.empty()) draw_layouts(figures, config.model.text).write(options.svg);
    say(stdout, "{}", run.json ? to_json(figures) : to_table(figures));
    return EXIT_SUCCESS;
  }
  if (options.strategy) {
    say(stdout, "{}", strategies_text(plan, *options.strategy));
    return EXIT_SUCCESS;
  }
  const std::string programs =
      options.programs.empty() ? "" : programs_text(plan, options.programs);
  if (run.json) {
    say(stdout, "{}\n", plan_json(config, plan).dump(2));
    return EXIT_SUCCESS;
  }
  std::string summary = config.model.text + "\n\n" + mesh::describe(plan);
  if (programs.empty()) {
    summary += fmt::format(
        "\nwhat each device does, instruction by instruction: --programs, or --programs {}\n",
        plan.train.programs.front().device_name);
  }
  const Screen screen = Screen::standard_output();
  say(stdout, "{}{}", screen.terminal ? wrap_lines(summary, screen.columns, 4) : summary, programs);
  return EXIT_SUCCESS;
}

}  // namespace weft::apps
