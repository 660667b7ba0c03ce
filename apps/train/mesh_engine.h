#pragma once

#include <string>
#include <vector>

#include "apps/train/training_engine.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::apps {

/// The devices of a plan, wherever they are: what MeshEngine gives its orders to.
class PlanRunner {
 public:
  virtual ~PlanRunner() = default;
  /// Runs one program on all devices to its end. The reports are in the order of devices.
  virtual std::vector<mesh::StepReport> run(const mesh::StepRequest& request) = 0;
  /// The driver's block of that name: full after "gather", to be filled before "scatter".
  virtual std::span<float> driver_block(const std::string& name) = 0;
  /// What to add to a device's times to get the driver's.
  virtual std::int64_t clock_offset_ns(std::size_t device) const = 0;
};

/// Carries out training steps by the programs of a plan. The driver's thread only; borrows plan and runner.
class MeshEngine final : public TrainingEngine {
 public:
  MeshEngine(const mesh::TrainingPlan& plan, PlanRunner& runner);

  StepOutcome step(const StepOrder& order) override;
  double validate(std::int64_t batches) override;
  std::vector<ParameterState> gather() override;
  void restore(const std::vector<ParameterState>& parameters, std::int64_t steps_done) override;
  std::vector<DeviceTrace> take_traces() override;

 private:
  mesh::StepRequest request(const std::string& program);

  const mesh::TrainingPlan& plan_;
  PlanRunner& runner_;
  std::uint64_t runs_ = 0;  // of any program: names the transfers of each
  std::vector<DeviceTrace> traces_;
};

}  // namespace weft::apps
