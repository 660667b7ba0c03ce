#pragma once

#include <map>
#include <vector>

#include "mesh/costs/op_seconds.h"
#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// A moment within an action while nothing holds it up: what its steps of a pass have taken by
/// then.
struct Moment {
  double work = 0;     ///< Of F, or of the input gradient.
  double weights = 0;  ///< Of the weight gradient.
  int step = 0;        ///< Counts what happens in the action.
};

/// What the steps of one stage do in order, in one direction: F, or I and W as they stand within a
/// B.
struct StageTimeline {
  double work = 0;     ///< Seconds of F, or of I.
  double weights = 0;  ///< Of W.
  std::map<LocalId, Moment> first_use;
  /// Of what is in first_use: F or I need it; else only W does.
  std::map<LocalId, bool> used_by_work;
  std::map<std::size_t, Moment> sent;  ///< By index into the partition's edges.
};

/// Seconds of each of a mesh's steps on the slowest of its devices; collectives as planned on the
/// network. What is done once in a training step is spread over its microbatches.
std::vector<double> step_seconds(const TrainingPlan& plan, MeshId mesh, const OpSeconds& seconds);

/// `forward`: F, else I and W. `seconds`: of the mesh's steps.
StageTimeline stage_timeline(const Partition& partition, StageId stage, bool forward,
                             const std::vector<double>& seconds);

/// What all groups of the mesh over these axes take to sum so many bytes each, at the same time.
double all_reduce_seconds(const TrainingPlan& plan, const DeviceMesh& mesh,
                          const std::vector<int>& axes, const TensorType& type);

}  // namespace weft::mesh
