#include "mesh/layouts/internal/output_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "mesh/layouts/labels.h"

namespace weft::mesh {
namespace {

[[noreturn]] void refuse(const std::string& found) {
  throw Error(ErrorCode::kInvalidConfig,
              fmt::format("pipeline.vocabulary needs a model that ends in a linear and a "
                          "cross-entropy over the axis 'vocab', whose logits nothing else uses; "
                          "{}; leave "
                          "`pipeline.vocabulary` out",
                          found))
      .at("pipeline.vocabulary");
}

/// Returns the name of the weights' dimension that becomes the linear's output dimension, or "" if
/// the weights are not a parameter of two dimensions.
std::string vocabulary_axis(const Graph& graph, const Node& linear) {
  const auto weights = std::ranges::find(graph.parameters(), linear.inputs[1], &Parameter::value);
  if (weights == graph.parameters().end() || weights->axes.size() != 2) return "";
  return weights->axes[linear.op.kind == OpKind::kLinear ? 1 : 0];
}

/// Returns the linear that makes the logits, whose last dimension must be the vocabulary.
NodeId producer_of_logits(const Graph& graph, ValueId logits) {
  const std::string& name = graph.value(logits).name;
  const std::optional<NodeId> linear = graph.value(logits).producer;
  if (!linear) refuse(fmt::format("the logits '{}' of this model are an input of it", name));
  const Node& product = graph.node(*linear);
  if (product.op.kind != OpKind::kLinear && product.op.kind != OpKind::kLinearInputGrad)
    refuse(fmt::format("the logits '{}' of this model come from {}", name,
                       to_string(product.op.kind)));
  const std::string axis = vocabulary_axis(graph, product);
  if (axis != kVocabulary)
    refuse(axis.empty() ? fmt::format("the weights of this model's last linear, '{}', are not a "
                                      "parameter of two dimensions",
                                      graph.value(product.inputs[1]).name)
                        : fmt::format("the logits '{}' of this model are over '{}'", name, axis));
  return *linear;
}

}  // namespace

OutputLayer output_layer(const TrainingGraph& model) {
  const Graph& graph = model.graph;
  const NodeId loss = graph.value(model.loss).producer.value();
  const Node& cross_entropy = graph.node(loss);
  if (cross_entropy.op.kind != OpKind::kCrossEntropy)
    refuse(fmt::format("the loss '{}' of this model is {}", graph.value(model.loss).name,
                       to_string(cross_entropy.op.kind)));
  const ValueId logits = cross_entropy.inputs[0];
  OutputLayer layer{producer_of_logits(graph, logits), loss};
  const Node& product = graph.node(layer.linear);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const bool is_gradient = node.forward == loss;
    if (is_gradient) layer.loss_grad = NodeId(i);
    for (const ValueId input : node.inputs)
      if (input == logits && !is_gradient && NodeId(i) != loss)
        refuse(fmt::format("the logits '{}' of this model are used by {} '{}' too",
                           graph.value(logits).name, to_string(node.op.kind),
                           graph.value(node.outputs[0]).name));
    if (node.forward == layer.linear && node.pass == Pass::kInputGrad &&
        graph.value(node.outputs[0]).gradient_of == product.inputs[0])
      layer.input_grad = NodeId(i);
  }
  return layer;
}

}  // namespace weft::mesh
