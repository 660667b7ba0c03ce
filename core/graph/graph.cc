#include "core/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace weft {

std::string_view to_string(Pass pass) {
  switch (pass) {
    case Pass::kForward: return "F";
    case Pass::kInputGrad: return "I";
    case Pass::kWeightGrad: return "W";
  }
  return "?";
}

namespace {

/// Checks the size when a tensor is added, where its name is known for the message.
void require_within_limit(const std::string& name, const TensorType& type) {
  if (type.is_within_limit()) return;
  throw_error(ErrorCode::kInvalidArgument,
              "tensor '{}' {} is larger than {}, the limit for one tensor", name, to_string(type),
              format_bytes(kMaxTensorBytes));
}

}  // namespace

ValueId Graph::add_input(std::string name, TensorType type, std::vector<std::string> axes) {
  WEFT_CHECK(axes.size() == type.shape.size(), "input {}", name);
  require_within_limit(name, type);
  const ValueId id(values_.size());
  values_.push_back({std::move(name), std::move(type), std::nullopt});
  inputs_.push_back({id, std::move(axes)});
  return id;
}

ValueId Graph::add_parameter(std::string name, TensorType type, Initializer initializer,
                             std::vector<std::string> axes, bool decay) {
  Shape shape = type.shape;
  return add_padded_parameter(std::move(name), std::move(type), std::move(shape), initializer,
                              std::move(axes), decay);
}

ValueId Graph::add_padded_parameter(std::string name, TensorType type, Shape shape,
                                    Initializer initializer, std::vector<std::string> axes,
                                    bool decay) {
  if (axes.size() != type.shape.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "parameter {} has {} dimensions but {} logical axis names", name, type.shape.size(),
                axes.size());
  }
  require_within_limit(name, type);
  const ValueId id(values_.size());
  values_.push_back({std::move(name), std::move(type), std::nullopt});
  parameters_.push_back({id, initializer, std::move(axes), decay, std::move(shape)});
  return id;
}

NodeId Graph::add_node(Op op, std::vector<ValueId> inputs,
                       const std::vector<TensorType>& output_types,
                       const std::vector<std::string>& output_names, int block, Pass pass,
                       std::optional<NodeId> forward) {
  WEFT_CHECK(output_types.size() == output_names.size());
  for (const ValueId input : inputs)
    WEFT_CHECK(input.value() < values_.size(), "input %{} is not a value yet", input);
  const NodeId id(nodes_.size());
  Node node{std::move(op), std::move(inputs), {}, block, pass, forward};
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    require_within_limit(output_names[i], output_types[i]);
    node.outputs.emplace_back(values_.size());
    values_.push_back({output_names[i], output_types[i], id});
  }
  nodes_.push_back(std::move(node));
  return id;
}

void Graph::mark_gradient(ValueId gradient, ValueId of) {
  WEFT_CHECK(gradient.value() < values_.size() && of < gradient, "%{} of %{}", gradient, of);
  auto& known = values_[gradient.value()].gradient_of;
  if (!known) known = of;
}

int Graph::num_blocks() const {
  int blocks = 0;
  for (const Node& node : nodes_) blocks = std::max(blocks, node.block + 1);
  return blocks;
}

std::int64_t Graph::num_parameter_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += num_elements(parameter.shape);
  return sum;
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph.value(node.outputs[i]);
      text += fmt::format("{}%{} {} {}", i == 0 ? "" : ", ", node.outputs[i], to_string(value.type),
                          value.name);
    }
    text += fmt::format(" = {}(", to_string(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      text += fmt::format("{}%{}", i == 0 ? "" : ", ", node.inputs[i]);
    text += fmt::format(") block {} {}\n", node.block, to_string(node.pass));
  }
  return text;
}

}  // namespace weft
