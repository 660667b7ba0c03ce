#include "apps/bench_pipeline/workload_costs.h"

#include <cstdint>
#include <vector>

#include "mesh/costs/plan_costs.h"
#include "mesh/costs/program_seconds.h"

namespace weft::apps {
namespace {

/// Any rate will do: what is measured replaces the times, not their proportions.
constexpr double kAnyRate = 1e9;

enum class Collectives : std::uint8_t { kIncluded, kLeftOut };

std::vector<mesh::MeasuredStage> stages_of(const mesh::TrainingPlan& plan,
                                           std::span<const mesh::ActionTime> measured,
                                           Collectives collectives) {
  std::vector<mesh::MeasuredStage> stages(plan.layout.stages.size());
  for (const mesh::ActionTime& time : measured) {
    mesh::MeasuredStage& stage = stages.at(time.stage);
    const double seconds =
        time.seconds + (collectives == Collectives::kIncluded ? time.collective_seconds : 0);
    switch (time.kind) {
      case mesh::ActionKind::kForward: stage.forward = seconds; break;
      case mesh::ActionKind::kInputGrad: stage.input_grad = seconds; break;
      case mesh::ActionKind::kWeightGrad: stage.weight_grad = seconds; break;
      default: break;
    }
  }
  return stages;
}

}  // namespace

mesh::ScheduleCosts emulated_costs(const mesh::TrainingPlan& plan, double device_flops) {
  return plan_costs(plan, mesh::cost_model_seconds(device_flops));
}

mesh::ScheduleCosts measured_costs(const mesh::TrainingPlan& plan,
                                   std::span<const mesh::ActionTime> measured) {
  mesh::ScheduleCosts costs = plan_costs(plan, mesh::cost_model_seconds(kAnyRate));
  scale_to(costs, stages_of(plan, measured, Collectives::kIncluded));
  return costs;
}

double emulated_step(const mesh::TrainingPlan& plan, double device_flops) {
  return simulate_step(plan, program_seconds(plan, mesh::cost_model_seconds(device_flops))).step;
}

double measured_step(const mesh::TrainingPlan& plan, std::span<const mesh::ActionTime> measured) {
  // Programs have the collectives within a mesh in them.
  const std::vector<mesh::MeasuredStage> stages = stages_of(plan, measured, Collectives::kLeftOut);
  return simulate_step(plan, program_seconds(plan, mesh::cost_model_seconds(kAnyRate), stages))
      .step;
}

}  // namespace weft::apps
