#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "mesh/sharding/device_mesh.h"
#include "mesh/sharding/spec.h"

namespace weft::mesh {

/// Which mesh axes split which logical axis: "batch" -> data, "heads" -> tensor. What is not named
/// is replicated.
struct ShardingRules {
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;
};

/// The logical names of a value's dimensions; "" where nothing is known.
using Labels = std::vector<std::string>;

/// Carries the logical axis names of inputs and parameters through the graph, along the factors of
/// each op. One entry per value.
std::vector<Labels> propagate_labels(const Graph& graph);

/// The logical axis names that tensors of this graph have: all that a rule can be about. Sorted,
/// each once.
std::vector<std::string> axis_names(const Graph& graph);

/// The spec that the rules give to a tensor on this mesh. Axes of size 1, and axes that the mesh
/// lacks, are left out; an axis is used for the first dimension that wants it.
Spec spec_for(const Labels& labels, const ShardingRules& rules, const DeviceMesh& mesh);

/// Throws Error(kInvalidConfig) unless every split dimension divides evenly; `what` names the
/// tensor in the message.
void check_divides(const std::string& what, const Shape& shape, const Labels& labels,
                   const Spec& spec, const DeviceMesh& mesh);

}  // namespace weft::mesh
