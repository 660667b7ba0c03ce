#include "apps/pipeline_bench/workload_costs.h"

#include <vector>

#include "mesh/stage_costs/plan_costs.h"

namespace weft::apps {
namespace {

/// Any rate will do: what is measured replaces the times, not their proportions.
constexpr double kAnyRate = 1e9;

}  // namespace

mesh::ScheduleCosts emulated_costs(const mesh::TrainingPlan& plan) { return plan_costs(plan, mesh::cost_model_seconds(0)); }

mesh::ScheduleCosts measured_costs(const mesh::TrainingPlan& plan, std::span<const mesh::ActionTime> measured) {
  mesh::ScheduleCosts costs = plan_costs(plan, mesh::cost_model_seconds(kAnyRate));
  std::vector<mesh::MeasuredStage> stages(costs.stages.size());
  for (const mesh::ActionTime& time : measured) {
    mesh::MeasuredStage& stage = stages.at(static_cast<std::size_t>(time.stage));
    const double seconds = time.seconds + time.collective_seconds;
    switch (time.kind) {
      case mesh::ActionKind::kForward: stage.forward = seconds; break;
      case mesh::ActionKind::kInputGrad: stage.input_grad = seconds; break;
      case mesh::ActionKind::kWeightGrad: stage.weight_grad = seconds; break;
      default: break;
    }
  }
  scale_to(costs, stages);
  return costs;
}

}  // namespace weft::apps
