#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/mesh_shape.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Strategy of one mesh as text: names instead of a graph's ids, and a line per home and op.
///
///   weft-strategy 1
///   mesh cube i=2 j=2 l=2
///   gather microbatch
///   splits residual=2 hidden=2 rows=2
///   home h0.attention.qkv_weight [l+i,-,j]
///   op h0.attention.linear [i,-,l] [l,-,j] [-,j] -> [i,-,-,j]
///
/// An op is named by its first output. Its line lists the axes of each dimension of its inputs,
/// then of its outputs. Dimensions of one factor must agree. Axes that split a reduction appear
/// only among the inputs. `partial(i)` at the end: inputs and outputs are partial sums over these
/// axes. Forward ops that split nothing and backward ops that are split as inherited have no line.
/// The second value of a name, in the graph's order, is "name#2". Blank lines and lines that start
/// with # are ignored.
///
/// A value. Only the header is parsed; strategy_of() looks names up.
struct StrategyText {
  std::string source;  ///< File that it comes from, for messages.
  std::string text;
  std::string mesh;  ///< Mesh that it was made for. Others with equal axes can use it.
  std::vector<MeshAxis> axes;
  GatherFrequency gather = GatherFrequency::kMicrobatch;
  FeatureSplits splits;
  friend bool operator==(const StrategyText&, const StrategyText&) = default;
};

/// Reads the header. Throws Error(kInvalidConfig) that begins with "source:line:column:" for other
/// texts and unknown kinds of lines.
StrategyText read_strategy(std::string text, std::string source);

/// Returns the strategy for a graph that split_graph() has split by these splits. A graph without
/// backward nodes ignores lines for them. Throws Error(kInvalidConfig) with a line
/// "source:line:column: ..." per problem: another mesh or graph, an unknown value, op or axis with
/// the nearest known one, a duplicate or missing line, an op that check_op_sharding() rejects.
ShardingStrategy strategy_of(const MeshGraph& part, const StrategyText& text);

/// Returns a text from which read_strategy() and strategy_of() make the same strategy.
std::string write_strategy(const MeshGraph& part, const ShardingStrategy& strategy,
                           const FeatureSplits& splits);

}  // namespace weft::mesh
