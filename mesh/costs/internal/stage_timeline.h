#pragma once

#include <map>
#include <vector>

#include "mesh/costs/op_time_model.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Point within an action that runs without waiting, as seconds of steps done so far.
struct TimelinePoint {
  double work = 0;     ///< Seconds of F, or of the input gradient.
  double weights = 0;  ///< Seconds of the weight gradient.
  int step = 0;        ///< Sequence number of the event within the action.
};

/// Timeline of a stage's steps in one direction: F, or B with its parts I and W.
struct StageTimeline {
  double work = 0;     ///< Seconds of F, or of I.
  double weights = 0;  ///< Seconds of W.
  std::map<LocalId, TimelinePoint> first_use;
  /// True if F or I reads the value of `first_use`, false if only W reads it.
  std::map<LocalId, bool> used_by_work;
  std::map<std::size_t, TimelinePoint>
      sent;  ///< Send times by index into the edges of the partition.
};

/// Returns the seconds of each of a mesh's steps on its slowest device. Collectives take the time
/// that a simulation of the plan's network gives. The time of a step that runs once per training
/// step is divided by the number of microbatches.
std::vector<double> step_seconds(const TrainingPlan& plan, MeshId mesh, const OpTimeModel& seconds);

/// Returns the timeline of F if `forward`, else of I and W. `seconds`: one entry per step of the
/// mesh.
StageTimeline stage_timeline(const Partition& partition, StageId stage, bool forward,
                             const std::vector<double>& seconds);

/// Returns the seconds in which all groups of the mesh over `axes` all-reduce `type` at the same
/// time.
double all_reduce_seconds(const TrainingPlan& plan, const DeviceMesh& mesh,
                          const std::vector<int>& axes, const TensorType& type);

}  // namespace weft::mesh
