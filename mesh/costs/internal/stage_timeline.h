#pragma once

#include <map>
#include <optional>
#include <vector>

#include "mesh/plan/training_plan.h"
#include "mesh/program/op_time_model.h"
#include "mesh/program/step_seconds.h"
#include "mesh/schedule/costs.h"

namespace weft::mesh {

/// Point within an action that runs without waiting, as seconds of steps done so far.
struct TimelinePoint {
  double work = 0;     ///< Seconds of F, or of the input gradient.
  double weights = 0;  ///< Seconds of the weight gradient.
  int step = 0;        ///< Sequence number of the event within the action.
};

/// Timeline of a stage's steps in one direction: F, or B with its parts I and W. Without the steps
/// that a stage recomputes.
struct StageTimeline {
  double work = 0;     ///< Seconds of F, or of I.
  double weights = 0;  ///< Seconds of W.
  double hidden = 0;   ///< Seconds by which a B is shorter than I and W together.
  /// Seconds in which collectives use the links: during F or I, and during B. 0 if unknown.
  double moving = 0, moving_in_both = 0;
  std::map<LocalId, TimelinePoint> first_use;
  /// True if F or I reads the value of `first_use`, false if only W reads it.
  std::map<LocalId, bool> used_by_work;
  std::map<std::size_t, TimelinePoint>
      sent;  ///< Send times by index into the edges of the partition.
};

/// Returns whether only the first microbatch that needs it runs the step: a gather of a parameter.
bool runs_once_per_step(const MeshPartition& part, std::size_t step);

/// Returns the durations of a mesh's steps. Collectives take the time that a simulation of the
/// plan's network gives.
std::vector<StepDuration> step_durations(const TrainingPlan& plan, MeshId mesh,
                                         const OpTimeModel& seconds);

/// Returns the timeline of F if `forward`, else of I and W. `durations`: by step of the mesh.
/// Follows the lists of the plan's training program; for a mesh without lists, steps run one after
/// the other in the order of the graph.
StageTimeline stage_timeline(const TrainingPlan& plan, StageId stage, bool forward,
                             const std::vector<StepDuration>& durations);

/// Returns the seconds from the end of a stage's last B or W, if its gradients need no reduction,
/// to the end of their reductions. Absent if the mesh has no lists, or if the schedule says when
/// the reductions start.
std::optional<double> listed_late_reduction(const TrainingPlan& plan, StageId stage,
                                            const std::vector<StepDuration>& durations);

/// Costs of a compound whose edges are those of the partition.
struct ListedCompound {
  CompoundCosts costs;
  double moving = 0;  ///< Seconds in which collectives use the links.
};
/// Returns the compounds of a mesh's stages, amid a step.
std::map<CompoundMembers, ListedCompound> listed_compounds(
    const TrainingPlan& plan, MeshId mesh, const std::vector<StepDuration>& durations);

/// Returns the seconds in which all groups of the mesh over `axes` all-reduce `type` at the same
/// time.
double all_reduce_seconds(const TrainingPlan& plan, MeshId mesh, const std::vector<int>& axes,
                          const TensorType& type);

}  // namespace weft::mesh
