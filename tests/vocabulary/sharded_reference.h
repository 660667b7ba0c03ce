#pragma once

#include <map>

#include "core/graph/graph.h"
#include "mesh/partition/partition.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {

/// Values of a graph, in double.
using Values = std::map<ValueId, Numbers>;

/// Runs all nodes of an output layer by the references of ops (tests/support/op_cases). `values`
/// has the inputs and parameters.
Values evaluate_in_double(const Graph& graph, Values values);

/// The same of a graph that lies on one mesh with one axis: each device runs its ops on its own
/// slices, and moves bring them together. Of the results partial ones are added up and slices put
/// together.
Values evaluate_shards_in_double(const mesh::Partition& partition, const Values& values);

}  // namespace weft::test
