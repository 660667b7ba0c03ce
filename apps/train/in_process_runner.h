#pragma once

#include <mutex>

#include "apps/train/mesh_engine.h"
#include "mesh/runtime/in_process_training.h"

namespace weft::apps {

/// All devices of a plan in this thread, over a loopback wire: for tests, and for looking at a
/// layout without a cluster. Schedule `auto` stays with what it begins with, and the first step's
/// note says so. Borrows plan and batches. What another thread gathers takes turns with steps.
class InProcessRunner final : public PlanRunner {
 public:
  InProcessRunner(const mesh::TrainingPlan& plan, mesh::BatchSource& batches, std::uint64_t seed);

  const mesh::TrainingPlan& plan() const override { return plan_; }
  mesh::StepResult run(const mesh::StepRequest& request) override;
  void copy_for_checkpoint() override { move(plan_.checkpoint_copy.front().name); }
  void gather(const mesh::CheckpointBatch& batch, const std::stop_token&) override {
    move(batch.gather.front().name);
  }
  void scatter(const mesh::CheckpointBatch& batch) override { move(batch.scatter.front().name); }
  std::span<float> checkpoint_buffer() override {
    return training_.driver_block(mesh::kCheckpointBuffer);
  }
  std::vector<DeviceTrace> take_traces() override;

 private:
  void move(const std::string& program);

  const mesh::TrainingPlan& plan_;
  mesh::InProcessTraining training_;
  std::mutex mutex_;
  std::uint64_t runs_ = 0;  // guarded by mutex_; of any program: names the transfers of each
  std::vector<DeviceTrace> traces_;
  bool said_what_auto_does_ = false;
};

}  // namespace weft::apps
