#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Returns the indices of the steps that an action of a stage runs on a mesh, in execution order.
/// Excludes recomputed steps, which run before these. `vocabulary_barriers`: the schedule's.
std::vector<std::size_t> steps_of(const MeshPartition& part, StageId stage, ActionKind kind,
                                  int vocabulary_barriers = 0);

/// Returns the steps of an S on the spanning mesh that depend on the exchange among its devices:
/// the combination of statistics, the loss and, with one barrier, the input gradient. They run
/// after the exchange; with two barriers and a T, at the start of the T.
std::vector<std::size_t> deferred_score_steps(const MeshPartition& part, StageId output,
                                              int vocabulary_barriers);

/// Returns the seconds of a whole node on a nominal fast device. Used to order steps before any
/// device is known.
double nominal_seconds(const Graph& graph, const Node& node);

/// Returns the steps that a recomputing stage reruns, in execution order.
std::vector<std::size_t> recompute_steps(const MeshPartition& part, StageId stage);

}  // namespace weft::mesh
