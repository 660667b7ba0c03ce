#include "apps/bench/pipeline/forward_pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/ops/op_definition.h"

namespace weft::apps {
namespace {

constexpr std::size_t kFeatureMapRank = 4;  // batch, height, width, channels
constexpr std::size_t kTimeRank = 2;        // batch, features: no positions

/// Returns the last block that uses each value; -1 for unused values.
std::vector<int> last_uses(const Graph& graph) {
  std::vector<int> last(graph.values().size(), -1);
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs)
      last[input.value()] = std::max(last[input.value()], node.block);
  }
  return last;
}

double product_flops(const Graph& graph, const Node& node) {
  const OpKind kind = node.op.kind;
  const bool product =
      kind == OpKind::kConvolution || kind == OpKind::kLinear || kind == OpKind::kCrossAttention;
  return product && graph.value(node.inputs[0]).type.shape.size() > kTimeRank
             ? cost(graph, node).flops
             : 0;
}

}  // namespace

std::vector<ForwardPiece> forward_pieces(const Graph& graph, ValueId output) {
  const std::vector<int> last = last_uses(graph);
  std::vector<ForwardPiece> pieces;
  std::map<ValueId, int> piece_of;
  ForwardPiece open;
  for (const Node& node : graph.nodes()) {
    open.block = node.block;
    open.flops += product_flops(graph, node);
    for (const ValueId input : node.inputs) {
      const auto found = piece_of.find(input);
      if (found != piece_of.end() && std::ranges::count(open.inputs, found->second) == 0)
        open.inputs.push_back(found->second);
    }
    const ValueId made = node.outputs.front();
    const TensorType& type = graph.value(made).type;
    const bool crosses = type.shape.size() == kFeatureMapRank && last[made.value()] > node.block;
    if (!crosses && made != output) continue;
    open.elements = type.elements();
    piece_of[made] = pieces.size();
    pieces.push_back(std::exchange(open, {}));
    if (made == output) return pieces;
  }
  WEFT_CHECK(false, "value {} is no result of the graph", output);
  return pieces;
}

}  // namespace weft::apps
