#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/placed_text.h"
#include "core/graph/graph.h"
#include "mesh/sharding/spec.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// A line of a strategy's text: "home", and "x [i,-]".
struct StrategyLine {
  PlacedText keyword;
  PlacedText rest;
};
/// Nothing for blank lines and comments.
std::optional<StrategyLine> line_of(const PlacedText& text);

/// Throws Error(kInvalidConfig): "source:line:column: message".
[[noreturn]] void fail_at(const std::string& source, const PlacedText& at,
                          const std::string& message);

/// Of every value of a graph: its name, and "name#2" for the second of that name.
std::vector<std::string> names_of_values(const Graph& graph);

/// "[i,-,l] [l,j] [j] -> [i,-,j]".
std::string specs_text(const FactorSignature& signature, const OpSharding& sharding,
                       const DeviceMesh& mesh);

/// Splits nothing.
OpSharding whole(const FactorSignature& signature);

/// What an op does whose line is left out. `forward`: the sharding of the node's forward node, if
/// it has one on this mesh.
OpSharding left_out(const Graph& graph, const Node& node, const OpSharding* forward);

}  // namespace weft::mesh
