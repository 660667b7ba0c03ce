#include "core/ops/graph_builder.h"

#include "core/base/error.h"
#include "core/ops/op_definition.h"

namespace weft {

GraphBuilder::GraphBuilder(DType precision) : precision_(precision) {
  if (precision != DType::kF32 && precision != DType::kBF16) {
    throw_error(ErrorCode::kInvalidArgument, "a model's precision is f32 or bf16, not {}",
                to_string(precision));
  }
}

ValueId GraphBuilder::input(const std::string& name, TensorType type,
                            std::vector<std::string> axes) {
  if (axes.size() != type.shape.size()) {
    throw_error(ErrorCode::kInvalidArgument, "input {} has {} dimensions but {} logical axis names",
                prefix_ + name, type.shape.size(), axes.size());
  }
  return graph_.add_input(prefix_ + name, std::move(type), std::move(axes));
}

ValueId GraphBuilder::parameter(const std::string& name, Shape shape, Initializer initializer,
                                std::vector<std::string> axes, bool decay) {
  return graph_.add_parameter(prefix_ + name, {precision_, std::move(shape)}, initializer,
                              std::move(axes), decay);
}

void GraphBuilder::set_block(int block) {
  if (block < block_)
    throw_error(ErrorCode::kInvalidArgument,
                "set_block({}) after set_block({}): blocks must not decrease", block, block_);
  block_ = block;
}

std::string GraphBuilder::names_of(const std::vector<ValueId>& values) const {
  std::string names;
  for (const ValueId value : values)
    names += (names.empty() ? "" : ", ") + graph_.value(value).name;
  return names;
}

ValueId GraphBuilder::append(Op op, std::vector<ValueId> inputs) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ValueId input : inputs) {
    if (input.value() >= graph_.values().size()) {
      throw_error(ErrorCode::kInvalidArgument, "{}: %{} is not a value of this graph",
                  to_string(op.kind), input);
    }
    types.push_back(graph_.value(input).type);
  }
  std::vector<TensorType> outputs;
  try {
    outputs = infer_types(op, types);
  } catch (const Error& error) {
    const std::string scope = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1) + ", ";
    throw Error(error.code(), fmt::format("{} (in {}block {}, of {})", error.message(), scope,
                                          block_, names_of(inputs)));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    names.push_back(prefix_ + std::string(to_string(op.kind)) +
                    (i == 0 ? "" : "." + std::to_string(i)));
  }
  const NodeId node =
      graph_.add_node(std::move(op), std::move(inputs), outputs, names, block_, Pass::kForward);
  return graph_.node(node).outputs[0];
}

}  // namespace weft
