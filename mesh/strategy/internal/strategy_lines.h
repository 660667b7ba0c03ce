#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/located_text.h"
#include "core/graph/graph.h"
#include "mesh/sharding/spec.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Line of a strategy's text, such as "home" and "x [i,-]".
struct StrategyLine {
  LocatedText keyword;
  LocatedText rest;
};
/// Splits a line. Returns nothing for blank lines and comments.
std::optional<StrategyLine> line_of(const LocatedText& text);

/// Throws Error(kInvalidConfig): "source:line:column: message".
[[noreturn]] void fail_at(const std::string& source, const LocatedText& at,
                          const std::string& message);

/// Returns the names of a graph's values, in order. The second value of a name is "name#2".
std::vector<std::string> names_of_values(const Graph& graph);

/// Returns text such as "[i,-,l] [l,j] [j] -> [i,-,j]".
std::string specs_text(const FactorSignature& signature, const OpSharding& sharding,
                       const DeviceMesh& mesh);

/// Returns a sharding that splits nothing.
OpSharding unsplit_sharding(const FactorSignature& signature);

/// Returns the sharding of an op without a line. `forward`: sharding of its forward op, or null if
/// that is not on this mesh.
OpSharding default_sharding(const Graph& graph, const Node& node, const OpSharding* forward);

}  // namespace weft::mesh
