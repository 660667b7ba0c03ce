#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::mesh {

/// Function that builds the plan of the same job for a changed layout.
using Replan = std::function<TrainingPlan(const ParallelConfig&)>;

/// Compiled schedule that the search found for a run.
struct ScheduleImprovement {
  TrainingPlan plan;          ///< Named "auto" in `layout.own_schedule`.
  std::string improved_from;  ///< See SearchResult::improved_from.
  /// Simulated seconds of a step: under the measured plan, and under this one.
  double seconds_before = 0;
  double seconds = 0;
  std::uint64_t memory_before = 0;  ///< Bytes on the fullest device.
  std::uint64_t memory = 0;
};

/// Searches a faster schedule, given the measured times of a plan's actions. Transfers take their
/// planned times if the layout states the links of all hosts, else their measured times. Found
/// schedules keep within the layout's memory, as the compiled programs need it; if the search
/// underestimated memory, it is repeated with the difference added. Among schedules of about equal
/// speed, prefers one that holds less memory. Returns nothing if none is faster than the plan's own
/// schedule in simulation. Throws Error(kInvalidArgument) unless every stage has times of F, I and
/// W.
std::optional<ScheduleImprovement> find_schedule(const TrainingPlan& plan,
                                                 std::span<const ActionTime> actions,
                                                 std::span<const EdgeTime> edges,
                                                 const Replan& again);

}  // namespace weft::mesh
