#pragma once

#include <span>
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
  /// Runs "train" or "validate" on all devices to its end; `request.run` is the runner's to fill in.
  virtual mesh::StepResult run(const mesh::StepRequest& request) = 0;
  /// A batch of parameters and moments of the plan from the devices to the driver's buffer, and back.
  virtual void gather(const mesh::CheckpointBatch& batch) = 0;
  virtual void scatter(const mesh::CheckpointBatch& batch) = 0;
  virtual std::span<float> checkpoint_buffer() = 0;
  /// What was traced since the last take, by device.
  virtual std::vector<DeviceTrace> take_traces() = 0;
  /// Ends the devices where they are this runner's to end; the last call.
  virtual void release() {}
};

/// Carries out training steps by the programs of a plan. The driver's thread only; borrows the runner.
class MeshEngine final : public TrainingEngine {
 public:
  explicit MeshEngine(PlanRunner& runner) : runner_(runner) {}

  StepOutcome step(const StepOrder& order) override;
  double validate(std::int64_t batches) override;
  ParameterList parameters() const override;
  void gather(const TakePiece& take) override;
  void restore(const GivePiece& give, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override { return runner_.take_traces(); }
  void release() override { runner_.release(); }

 private:
  PlanRunner& runner_;
};

}  // namespace weft::apps
