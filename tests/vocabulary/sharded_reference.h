#pragma once

#include <map>

#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {

/// Values of a graph in double precision.
using Values = std::map<ValueId, Numbers>;

/// Runs all nodes of an output layer with the ops' references (tests/support/op_cases). `values`
/// has the inputs and parameters.
Values evaluate_in_double(const Graph& graph, Values values);

/// Runs a graph on one mesh with one axis. Each device runs its ops on its own slices, and moves
/// exchange them. Partial results are summed, and slices are concatenated.
Values evaluate_shards_in_double(const mesh::Partition& partition, const Values& values);

}  // namespace weft::test
