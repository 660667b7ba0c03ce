#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "actors/head/cluster_messages.h"
#include "actors/launch/app_main.h"
#include "apps/train/app_batches.h"
#include "apps/train/mesh_engine.h"
#include "apps/train/run_config.h"
#include "mesh/executor/mesh_group.h"

namespace weft::apps {

mesh::DeviceKind device_kind(actors::DeviceChoice choice);

/// The device actors of a cluster as the training loop sees them.
template <typename Source>
class GroupRunner final : public PlanRunner {
 public:
  GroupRunner(actors::Cluster& cluster, const RunConfig& config,
              const typename Source::Config& source)
      : group_(std::make_unique<Group>(cluster, config.layout, config.model.graphs, source,
                                       options_of(config))) {}

  const mesh::TrainingPlan& plan() const override { return group_->plan(); }
  mesh::StepResult run(const mesh::StepRequest& request) override { return group_->run(request); }
  void copy_for_checkpoint() override { group_->copy_for_checkpoint(); }
  void gather(const mesh::CheckpointBatch& batch, const std::stop_token& stop) override {
    group_->gather(batch, stop);
  }
  void scatter(const mesh::CheckpointBatch& batch) override { group_->scatter(batch); }
  std::span<float> checkpoint_buffer() override { return group_->checkpoint_buffer(); }
  std::vector<DeviceTrace> take_traces() override { return group_->take_traces(); }
  /// The device processes have ended when it returns.
  void release() override { group_.reset(); }

 private:
  using Group = mesh::MeshGroup<Source>;
  static mesh::GroupOptions options_of(const RunConfig& config) {
    mesh::GroupOptions options;
    options.seed = config.seed;
    options.threads_per_device = static_cast<int>(config.cluster.threads_per_device);
    options.device = device_kind(config.cluster.device);
    options.share_gpu = config.cluster.share_gpu;
    options.progress = {config.cluster.no_progress, config.cluster.longest_op};
    return options;
  }
  std::unique_ptr<Group> group_;
};

/// Starts device actors for a run whose data are ready.
using StartDevices =
    std::function<std::unique_ptr<PlanRunner>(const RunConfig&, const PreparedData&)>;

/// The roles of a training app, for serve_training(). Each returns an exit status or throws.
int check_training(const actors::AppRun& run, TrainingApp& app);
int plan_training(const actors::AppRun& run, TrainingApp& app);
int drive_training(const actors::AppRun& run, TrainingApp& app, const StartDevices& start_devices,
                   const std::function<void(const actors::RunProgress&)>& tell);

/// The main() of a training app: serves every role that its executable can be started in.
///
///   int main(int argc, char** argv) {
///     return weft::apps::serve_training<weft::apps::GptApp>(argc, argv);
///   }
template <typename App>
int serve_training(int argc, char** argv) {
  using Source = AppBatches<App>;
  actors::AppMain main(argc, argv);
  main.provide<mesh::DeviceActor<Source>>();
  main.on_check([](const actors::AppRun& run) {
    App app;
    return check_training(run, app);
  });
  main.on_plan([](const actors::AppRun& run) {
    App app;
    return plan_training(run, app);
  });
  return main.run([](actors::Cluster& cluster, const actors::AppRun& run) {
    App app;
    const StartDevices start = [&cluster](const RunConfig& config,
                                          const PreparedData& data) -> std::unique_ptr<PlanRunner> {
      return std::make_unique<GroupRunner<Source>>(cluster, config,
                                                   typename Source::Config{data.batches});
    };
    return drive_training(run, app, start, [&cluster](const actors::RunProgress& progress) {
      cluster.report_progress(progress);
    });
  });
}

}  // namespace weft::apps
