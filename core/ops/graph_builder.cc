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

ValueId GraphBuilder::linear(ValueId x, ValueId w, std::optional<ValueId> bias) {
  std::vector<ValueId> inputs{x, w};
  if (bias) inputs.push_back(*bias);
  return append({OpKind::kLinear, {}}, std::move(inputs));
}

ValueId GraphBuilder::linear_transposed(ValueId x, ValueId w) {
  return append({OpKind::kLinearInputGrad, {}}, {x, w});
}

ValueId GraphBuilder::add(ValueId a, ValueId b) { return append({OpKind::kAdd, {}}, {a, b}); }

ValueId GraphBuilder::gelu(ValueId x) { return append({OpKind::kGelu, {}}, {x}); }

ValueId GraphBuilder::layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return append({OpKind::kLayerNorm, {{"epsilon", epsilon}}}, {x, gamma, beta});
}

ValueId GraphBuilder::attention(ValueId qkv, std::int64_t head_dim) {
  return append({OpKind::kAttention, {{"head_dim", head_dim}}}, {qkv});
}

ValueId GraphBuilder::embedding(ValueId table, ValueId ids) {
  return append({OpKind::kEmbedding, {}}, {table, ids});
}

ValueId GraphBuilder::emulated_block(std::vector<ValueId> inputs, ValueId w,
                                     const EmulatedBlock& block) {
  Op op{OpKind::kEmulatedBlock,
        {{"seconds", block.forward_seconds},
         {"input_grad_seconds", block.input_grad_seconds},
         {"weight_grad_seconds", block.weight_grad_seconds},
         {"saved", block.saved_per_row},
         {"rank", static_cast<std::int64_t>(block.features.size()) + 1}}};
  for (std::size_t d = 0; d < block.features.size(); ++d)
    op.attributes.emplace_back("d" + std::to_string(d + 1), block.features[d]);
  inputs.push_back(w);
  return append(std::move(op), std::move(inputs));
}

ValueId GraphBuilder::cross_entropy(ValueId logits, ValueId targets, double scale,
                                    std::optional<ValueId> weights) {
  std::vector<ValueId> inputs{logits, targets};
  if (weights) inputs.push_back(*weights);
  return append({OpKind::kCrossEntropy, {{"scale", scale}}}, std::move(inputs));
}

ValueId GraphBuilder::silu(ValueId x) { return append({OpKind::kSilu, {}}, {x}); }

ValueId GraphBuilder::sigmoid(ValueId x) { return append({OpKind::kSigmoid, {}}, {x}); }

ValueId GraphBuilder::multiply(ValueId a, ValueId b) {
  return append({OpKind::kMultiply, {}}, {a, b});
}

ValueId GraphBuilder::convolution(ValueId x, ValueId w, std::optional<ValueId> bias,
                                  std::int64_t stride, std::int64_t padding) {
  std::vector<ValueId> inputs{x, w};
  if (bias) inputs.push_back(*bias);
  return append({OpKind::kConvolution, {{"stride", stride}, {"padding", padding}}},
                std::move(inputs));
}

ValueId GraphBuilder::group_norm(ValueId x, ValueId gamma, ValueId beta, std::int64_t group_size,
                                 double epsilon) {
  return append({OpKind::kGroupNorm, {{"group_size", group_size}, {"epsilon", epsilon}}},
                {x, gamma, beta});
}

ValueId GraphBuilder::upsample(ValueId x, std::int64_t factor) {
  return append({OpKind::kUpsample, {{"factor", factor}}}, {x});
}

ValueId GraphBuilder::concat(ValueId a, ValueId b) { return append({OpKind::kConcat, {}}, {a, b}); }

ValueId GraphBuilder::add_channels(ValueId x, ValueId t) {
  return append({OpKind::kAddChannels, {}}, {x, t});
}

ValueId GraphBuilder::cross_attention(ValueId q, ValueId k, ValueId v, std::int64_t head_dim) {
  return append({OpKind::kCrossAttention, {{"head_dim", head_dim}}}, {q, k, v});
}

ValueId GraphBuilder::squared_error(ValueId x, ValueId target, double scale) {
  return append({OpKind::kSquaredError, {{"scale", scale}}}, {x, target});
}

ValueId GraphBuilder::convert(ValueId x, DType to) {
  if (x.value() < graph_.values().size() && type(x).dtype == to) return x;
  return append({to == DType::kBF16 ? OpKind::kToBF16 : OpKind::kToF32, {}}, {x});
}

void GraphBuilder::set_block(int block) {
  if (block < block_)
    throw_error(ErrorCode::kInvalidArgument,
                "set_block({}) after set_block({}): blocks must not decrease", block, block_);
  block_ = block;
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
  std::vector<TensorType> outputs = infer_types(op, types);
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
