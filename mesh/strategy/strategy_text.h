#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/mesh_shape.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// A strategy of one mesh as text: names in place of a graph's ids, a line for each home and op.
///
///   weft-strategy 1
///   mesh cube i=2 j=2 l=2
///   gather microbatch
///   splits residual=2 hidden=2 rows=2
///   home h0.attention.qkv_weight [l+i,-,j]
///   op h0.attention.linear [i,-,l] [l,-,j] [-,j] -> [i,-,-,j]
///
/// An op is named by its first output. Its line has a list of axes for each dimension of its
/// inputs, then of its outputs; dimensions that are one factor of its signature say the same.
/// Axes that split a reduction stand among the inputs alone. `partial(i)` at the end: inputs and
/// outputs are partial sums over these axes. Left out are forward ops that split nothing, and
/// backward ops that are split as they inherit it. Of several values of one name the second is
/// "name#2", in the graph's order. Blank lines and those that start with # count for nothing.
///
/// A value. Of the text it knows the header; names are looked up by strategy_of().
struct StrategyText {
  std::string source;  ///< Where it comes from, for messages: a file.
  std::string text;
  std::string mesh;  ///< The name of the mesh that it was made for; it suits others of its axes.
  std::vector<MeshAxis> axes;
  Gather gather = Gather::kMicrobatch;
  FeatureSplits splits;
  friend bool operator==(const StrategyText&, const StrategyText&) = default;
};

/// Reads the header. Throws Error(kInvalidConfig) that begins with "source:line:column:" for what
/// is no such text, and for lines of other kinds.
StrategyText read_strategy(std::string text, std::string source);

/// The strategy, for a graph that has been through split_graph() with these splits. A graph without
/// backward nodes takes what it has of a training graph's. Throws Error(kInvalidConfig) with a line
/// "source:line:column: ..." for each mistake: another mesh, another graph, an unknown value, op or
/// axis with the nearest one, a line too much or too little, what check() refuses.
ShardingStrategy strategy_of(const MeshGraph& part, const StrategyText& text);

/// The text of which read_strategy() and strategy_of() make this strategy again.
std::string write_strategy(const MeshGraph& part, const ShardingStrategy& strategy,
                           const FeatureSplits& splits);

}  // namespace weft::mesh
