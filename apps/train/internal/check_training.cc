#include "apps/train/internal/check_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/run_files/progress_display.h"
#include "apps/train/internal/layout_text.h"
#include "apps/train/run_config.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/cuda_support/cuda_support.h"
#include "mesh/plan/plan_memory.h"

namespace weft::apps {
namespace {

/// Returns the most memory that a device holds, and its name: "9.2 MiB a device at most, on
/// front[0,0]; device processes are capped at 64 MiB".
std::string memory_text(const mesh::TrainingPlan& plan, std::uint64_t cap) {
  const mesh::Program* most = nullptr;
  for (const mesh::Program& program : plan.train.programs) {
    if (most == nullptr ||
        mesh::device_memory(plan, program.device) > mesh::device_memory(plan, most->device))
      most = &program;
  }
  return fmt::format(
      "{} a device at most, on {}{}", format_bytes(mesh::device_memory(plan, most->device)),
      most->device_name,
      cap == 0 ? "" : fmt::format("; device processes are capped at {}", format_bytes(cap)));
}

nlohmann::ordered_json check_json(const actors::AppRun& run, const RunConfig& config,
                                  const mesh::TrainingPlan& plan) {
  nlohmann::ordered_json json = {
      {"file", run.config.string()},
      {"valid", true},
      {"problems", nlohmann::ordered_json::array()},
      {"name", config.name},
      {"model", config.model.text},
      {"data", config.model.data},
      {"parameters", config.model.graphs.train.graph.num_parameter_elements()}};
  for (const mesh::MeshConfig& mesh : config.layout.meshes) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::object();
    for (const MeshAxis& axis : mesh.axes) shape[axis.name] = axis.size;
    json["meshes"].push_back({{"name", mesh.name}, {"hosts", mesh.hosts}, {"shape", shape}});
  }
  for (const mesh::StageConfig& stage : config.layout.stages)
    json["stages"].push_back(
        {{"mesh", config.layout.meshes[stage.mesh].name}, {"layers", stage.layers}});
  json["schedule"] = config.layout.searches() ? config.layout.schedule : plan.schedule.name;
  json["microbatches"] = config.layout.microbatches;
  json["steps"] = config.training.steps;
  json["batch"] = config.training.batch;
  std::uint64_t most = 0;
  for (const mesh::Program& program : plan.train.programs)
    most = std::max(most, mesh::device_memory(plan, program.device));
  json["device_bytes_at_most"] = most;
  if (config.cluster.memory != 0) json["device_cap_bytes"] = config.cluster.memory;
  return json;
}

/// Warns if this machine has no usable GPU; other hosts may have some.
void note_missing_gpus(DeviceKind kind) {
  if (kind != DeviceKind::kCuda) return;
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (!support.unavailable_reason.empty())
    say(stderr, "note: cluster.device is cuda, and this machine has no GPU that can be used: {}\n",
        support.unavailable_reason);
}

}  // namespace

int check_training(const actors::AppRun& run, TrainingApp& app) {
  const auto [config, plan] = plan_run(run, app);
  if (run.planned) run.planned(mesh::digest_of_steps(plan));
  note_missing_gpus(config.device.kind);
  if (run.quiet) return EXIT_SUCCESS;
  if (run.json) {
    say(stdout, "{}\n", check_json(run, config, plan).dump(2));
    return EXIT_SUCCESS;
  }
  const Screen screen = Screen::standard_output();
  print_row(screen, "model", config.model.text);
  if (!config.model.data.empty()) print_row(screen, "data", config.model.data);
  print_row(screen, "meshes", meshes_text(config.layout));
  print_row(screen, "stages", stages_text(config.layout));
  print_row(screen, "pipeline", pipeline_text(config.layout));
  print_row(screen, "memory", memory_text(plan, config.cluster.memory));
  print_row(screen, "training",
            fmt::format("{} steps of {} rows", config.training.steps, config.training.batch));
  return EXIT_SUCCESS;
}

}  // namespace weft::apps
