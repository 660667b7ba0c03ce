#include "apps/bench/pipeline/workload_costs.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "mesh/costs/plan_costs.h"
#include "mesh/costs/program_seconds.h"

namespace weft::apps {
namespace {

/// Arbitrary rate: measured times replace the computed ones, except for their proportions.
constexpr double kArbitraryRate = 1e9;

}  // namespace

mesh::ScheduleCosts emulated_costs(const mesh::TrainingPlan& plan, double device_flops) {
  return plan_costs(plan, mesh::cost_model_seconds(device_flops));
}

mesh::ScheduleCosts measured_costs(const mesh::TrainingPlan& plan,
                                   std::span<const mesh::ActionTime> measured) {
  mesh::ScheduleCosts costs = plan_costs(plan, mesh::cost_model_seconds(kArbitraryRate));
  scale_to_measured(costs, plan, measured_stages(plan, measured, mesh::CollectiveTime::kIncluded));
  return costs;
}

double emulated_step(const mesh::TrainingPlan& plan, double device_flops) {
  return simulate_step(plan, program_seconds(plan, mesh::cost_model_seconds(device_flops))).step;
}

double emulated_busiest(const mesh::TrainingPlan& plan, double device_flops) {
  double most = 0;
  for (const auto& of_device : program_seconds(plan, mesh::cost_model_seconds(device_flops)))
    most = std::max(most, std::accumulate(of_device.begin(), of_device.end(), 0.0));
  return most;
}

double measured_step(const mesh::TrainingPlan& plan, std::span<const mesh::ActionTime> measured) {
  // Left out since programs contain the collectives within a mesh.
  const auto stages = measured_stages(plan, measured, mesh::CollectiveTime::kExcluded);
  return simulate_step(plan,
                       program_seconds(plan, mesh::cost_model_seconds(kArbitraryRate), stages))
      .step;
}

}  // namespace weft::apps
