#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Indices of the steps of a mesh that an action of a stage runs, in the order in which programs
/// run them. What is computed again comes before these. `vocabulary_barriers`: the schedule's.
std::vector<std::size_t> steps_of(const MeshPartition& part, StageId stage, ActionKind kind,
                                  int vocabulary_barriers = 0);

/// Of the steps of an S on the mesh that spans others those that wait for what its devices
/// exchange: the combination of their statistics, the loss and, with one barrier, the input
/// gradient. They run when the exchange is over; with two barriers and a T, at its beginning.
std::vector<std::size_t> rest_of_scores(const MeshPartition& part, StageId output,
                                        int vocabulary_barriers);

/// Seconds that all of a node takes on some fast device: by these an order is chosen before any
/// device is known.
double nominal_seconds(const Graph& graph, const Node& node);

/// What a stage that recomputes runs again, in that order.
std::vector<std::size_t> steps_again(const MeshPartition& part, StageId stage);

}  // namespace weft::mesh
