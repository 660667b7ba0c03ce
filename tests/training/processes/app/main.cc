// Small GPT of the master test as an app for `weft run`. Writes each step's loss to losses.json.

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "actors/launch/app_main.h"
#include "mesh/executor/pipeline_executor.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

int drive(actors::Cluster& cluster, const actors::AppRun& run) {
  const ConfigNode root = run.document().root();
  const mesh::ParallelConfig layout = mesh::parse_layout(root);
  int steps = 20;
  const ConfigNode training = root.at("training");
  training.require("steps", steps, {.min = 1});
  RandomBatches::Config batches{kRows, kVocabulary, 11};
  training.read("stuck_from", batches.stuck_from);
  mesh::PipelineExecutorOptions options{.seed = 7};
  training.read("stuck_for", batches.stuck_for);
  training.read("no_progress", options.progress.no_progress);
  training.read("longest_op", options.progress.longest_op);
  std::string later;
  training.read("later", later);
  DType precision = DType::kF32;
  training.read_enum("precision", precision, {{"f32", DType::kF32}, {"bf16", DType::kBF16}});
  mesh::PipelineExecutor group(cluster, layout, small_gpt(3, false, precision), encode(batches),
                               options);
  std::ofstream out(run.out / "losses.json");
  out << "[";
  for (int step = 0; step < steps; ++step) {
    if (!later.empty() && step == steps / 2) {
      mesh::ParallelConfig changed = layout;
      changed.schedule = later;
      changed.resharding = transfer::ReshardAlgorithm::kSendRecv;
      group.switch_layout(changed);
    }
    const mesh::StepResult result = group.run(train_step(step));
    if (step < 3) {
      fmt::print("step {}\n", step);
      std::fflush(stdout);
    }
    out << fmt::format("{}{{\"loss\": {:.17g}, \"grad_norm\": {:.17g}}}", step == 0 ? "" : ",\n",
                       result.loss, result.grad_norm);
  }
  out << "]\n";
  return 0;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<weft::mesh::DeviceActor>(
      weft::mesh::make_device_actors(weft::test::open_random_batches));
  app.on_check([](const weft::actors::AppRun&) { return 0; });
  return app.run(weft::test::drive);
}
