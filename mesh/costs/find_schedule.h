#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::mesh {

/// The same job's plan for a changed layout.
using PlanAgain = std::function<TrainingPlan(const LayoutConfig&)>;

/// A schedule that was found for a run, compiled.
struct FoundSchedule {
  TrainingPlan plan;  ///< Its layout's own schedule is called "auto".
  std::string from;   ///< What it was improved from: see SearchResult.
  /// A step under the plan that was measured, and under this one, in simulation.
  double seconds_before = 0;
  double seconds = 0;
  std::uint64_t memory_before = 0;  ///< Of the device that holds most.
  std::uint64_t memory = 0;
};

/// Searches a schedule for what a plan's actions took. Transfers take what was planned where the
/// layout knows the hosts' links, else what was measured. Within the layout's memory, by what the
/// compiled programs need: where the search's idea of memory was too small, it is corrected by the
/// difference and the search repeated. Of schedules that are about as fast it takes one that holds
/// less. Nothing if none is faster than the plan's own, in simulation. Throws
/// Error(kInvalidArgument) unless every stage has times of F, I and W.
std::optional<FoundSchedule> find_schedule(const TrainingPlan& plan,
                                           std::span<const ActionTime> actions,
                                           std::span<const EdgeTime> edges, const PlanAgain& again);

}  // namespace weft::mesh
