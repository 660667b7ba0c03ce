// attention(qkv[B,S,3,D]; head_dim): causal multi-head self-attention. Head h uses columns
// [h*head_dim, (h+1)*head_dim) of D:
//   y[b,i,h] = sum_{j<=i} softmax_j(q[b,i,h] . k[b,j,h] / sqrt(head_dim)) v[b,j,h]
//   statistics[b,h,i] = log sum_{j<=i} exp(q[b,i,h] . k[b,j,h] / sqrt(head_dim))
// with y[B,S,D] and statistics[B, heads, S], f32. A device with a slice of D, cut between heads,
// runs the same op.
//
// attention_grad(qkv, y, statistics, dy; head_dim) -> dqkv recomputes the probabilities from the
// statistics. Keeping them would take B*heads*S*S elements per layer and microbatch in flight.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

void require_packed_qkv(const Op& op, std::span<const TensorType> inputs) {
  const Shape& qkv = inputs[0].shape;
  const std::int64_t head_dim = op.integer("head_dim");
  require(qkv.size() == 4 && qkv[2] == 3, op, inputs,
          "qkv must have the shape [batch, sequence, 3, width]");
  require(head_dim > 0 && qkv[3] % head_dim == 0, op, inputs,
          "the width {} is not a multiple of head_dim {}", qkv[3], head_dim);
}

TensorType output_type(DType real, const Shape& qkv) { return {real, {qkv[0], qkv[1], qkv[3]}}; }
TensorType statistics_type(const Op& op, const Shape& qkv) {
  return {DType::kF32, {qkv[0], qkv[3] / op.integer("head_dim"), qkv[1]}};
}

std::vector<TensorType> infer_attention(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal});
  require_packed_qkv(op, inputs);
  return {output_type(real, inputs[0].shape), statistics_type(op, inputs[0].shape)};
}

std::vector<TensorType> infer_attention_grad(const Op& op, std::span<const TensorType> inputs) {
  const DType real =
      require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kF32, Element::kReal});
  require_packed_qkv(op, inputs);
  const TensorType y = output_type(real, inputs[0].shape);
  require(inputs[1] == y && inputs[3] == y, op, inputs,
          "y and dy must have the shape [batch, sequence, width]");
  require(inputs[2] == statistics_type(op, inputs[0].shape), op, inputs,
          "the statistics must have the shape [batch, heads, sequence]");
  return {inputs[0]};
}

/// Returns the operations of one product of S*S/2 (causal) by D, over the batch.
double causal_product_flops(const Shape& qkv) {
  return qkv[0] * static_cast<double>(qkv[1]) * (qkv[1] + 1) * qkv[3];
}
double attention_flops(const Op&, std::span<const TensorType> inputs) {
  return 2 * causal_product_flops(inputs[0].shape);
}
double attention_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return 5 * causal_product_flops(inputs[0].shape);
}

FactorSignature attention_signature(const Op& op, std::span<const TensorType> inputs) {
  enum : int { kBatch, kSequence, kThree, kWidth };
  const Shape& qkv = inputs[0].shape;
  FactorSignature signature;
  signature.factors = {{FactorKind::kParallel, qkv[0]},
                       {FactorKind::kWhole, qkv[1]},
                       {FactorKind::kWhole, qkv[2]},
                       {FactorKind::kParallel, qkv[3], op.integer("head_dim")}};
  const std::vector<int> packed{kBatch, kSequence, kThree, kWidth}, flat{kBatch, kSequence, kWidth};
  const std::vector<int> statistics{kBatch, kWidth, kSequence};
  if (op.kind == OpKind::kAttention) {
    signature.inputs = {packed};
    signature.outputs = {flat, statistics};
  } else {
    signature.inputs = {packed, flat, statistics, flat};
    signature.outputs = {packed};
    signature.linear_in = {{3}};
  }
  return signature;
}

void differentiate_attention(GradientRule& rule) {
  if (!rule.needs_gradient(0)) return;
  const Op op{OpKind::kAttentionGrad, {{"head_dim", rule.node().op.integer("head_dim")}}};
  const Node& node = rule.node();
  const std::vector<ValueId> inputs{node.inputs[0], node.outputs[0], node.outputs[1],
                                    *rule.output_gradient()};
  rule.contribute(0, rule.emit(op, inputs, Pass::kInputGrad)[0]);
}

}  // namespace

ValueId GraphBuilder::attention(ValueId qkv, std::int64_t head_dim) {
  return append({OpKind::kAttention, {{"head_dim", head_dim}}}, {qkv});
}

const OpDefinition kAttentionDefinition{infer_attention, attention_flops, attention_signature,
                                        differentiate_attention};
const OpDefinition kAttentionGradDefinition{infer_attention_grad, attention_grad_flops,
                                            attention_signature, nullptr};

}  // namespace weft
