#pragma once

#include <algorithm>
#include <vector>

#include "apps/models/u_transformer_graph.h"
#include "core/autodiff/differentiate.h"

namespace weft::test {

/// U-Transformer of five blocks that takes milliseconds.
inline constexpr apps::UTransformerShape kSmallUTransformer{.height = 8,
                                                            .width = 12,
                                                            .classes = 3,
                                                            .levels = 2,
                                                            .channels = 8,
                                                            .group_size = 4,
                                                            .head_dim = 4,
                                                            .attended_skips = 2,
                                                            .batch = 2};

/// Value that a node of another block reads.
struct BlockEdge {
  ValueId value;
  int from = 0;
  int to = 0;
};

/// Returns an edge for each node input that another block produces, in node order.
inline std::vector<BlockEdge> block_edges(const Graph& graph) {
  std::vector<BlockEdge> edges;
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) {
      const auto producer = graph.value(input).producer;
      if (producer && graph.node(*producer).block != node.block)
        edges.push_back({input, graph.node(*producer).block, node.block});
    }
  }
  return edges;
}

/// True if each parameter of a model (a graph with its loss) gets a gradient.
template <typename Model>
bool trains_every_parameter(const Model& model) {
  const TrainingGraph training = differentiate(model.graph, model.loss);
  return std::ranges::all_of(model.graph.parameters(), [&](const Parameter& parameter) {
    return std::ranges::count(training.gradients, parameter.value, &Gradient::parameter) > 0;
  });
}

}  // namespace weft::test
