#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/train/training_engine.h"
#include "mesh/plan/training_plan.h"
#include "mesh/program/checkpoint_programs.h"
#include "mesh/runtime/step_result.h"

namespace weft::apps {

/// The devices of a plan, wherever they are: what MeshEngine gives its orders to.
class PlanRunner {
 public:
  virtual ~PlanRunner() = default;
  virtual const mesh::TrainingPlan& plan() const = 0;
  /// Runs "train" or "validate" on all devices to its end; `request.run` is the runner's to fill
  /// in.
  virtual mesh::StepResult run(const mesh::StepRequest& request) = 0;
  /// A batch of parameters and moments of the plan from the devices to the driver's buffer, and
  /// back. Where the plan copies for checkpoints, a gather is from the last copy, and may run on
  /// another thread beside run().
  virtual void copy_for_checkpoint() = 0;
  virtual void gather(const mesh::CheckpointBatch& batch, const std::stop_token& stop) = 0;
  virtual void scatter(const mesh::CheckpointBatch& batch) = 0;
  virtual std::span<float> checkpoint_buffer() = 0;
  /// What was traced since the last take, by device.
  virtual std::vector<DeviceTrace> take_traces() = 0;
  /// Ends the devices where they are this runner's to end; the last call.
  virtual void release() {}
};

/// Carries out training steps by the programs of a plan. The driver's thread only; borrows the
/// runner.
class MeshEngine final : public TrainingEngine {
 public:
  explicit MeshEngine(PlanRunner& runner)
      : runner_(runner), checkpoint_(runner.plan().checkpoint) {}

  StepOutcome step(const StepOrder& order) override;
  double validate(std::int64_t batches) override;
  ParameterList parameters() const override;
  bool copies() const override { return runner_.plan().copies_checkpoints(); }
  void copy_state() override { runner_.copy_for_checkpoint(); }
  void gather(const TakePiece& take, const std::stop_token& stop) override;
  void restore(const GivePiece& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override { return runner_.take_traces(); }
  void release() override { runner_.release(); }

 private:
  PlanRunner& runner_;
  /// A runner's plan may change between steps, but not in this.
  const std::span<const mesh::CheckpointBatch> checkpoint_;
};

}  // namespace weft::apps
