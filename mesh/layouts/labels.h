#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace weft::mesh {

/// The logical names of a value's dimensions; "" where nothing is known.
using Labels = std::vector<std::string>;

/// The name of dimensions that are a vocabulary.
inline constexpr std::string_view kVocabulary = "vocab";

/// Carries the logical axis names of inputs and parameters through the graph, along the factors of
/// each op. One entry per value.
std::vector<Labels> propagate_labels(const Graph& graph);

/// The logical axis names that tensors of this graph have: all that a rule can be about. Sorted,
/// each once.
std::vector<std::string> axis_names(const Graph& graph);

}  // namespace weft::mesh
