#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace weft::mesh {

/// Logical names of a value's dimensions; "" if unknown.
using Labels = std::vector<std::string>;

/// Logical name of vocabulary dimensions.
inline constexpr std::string_view kVocabulary = "vocab";

/// Propagates the logical axis names of inputs and parameters through the graph, along the factors
/// of each op. Returns one entry per value.
std::vector<Labels> propagate_labels(const Graph& graph);

/// Returns the logical axis names of inputs and parameters, which rules can refer to. Sorted and
/// unique.
std::vector<std::string> axis_names(const Graph& graph);

}  // namespace weft::mesh
