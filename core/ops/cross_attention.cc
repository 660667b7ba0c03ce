// cross_attention(q[B, Q..., D], k[B, K..., D], v[B, K..., D]; head_dim): multi-head attention of
// every query to all keys. Head h uses columns [h*head_dim, (h+1)*head_dim) of D:
//   y[b,i,h] = sum_j softmax_j(q[b,i,h] . k[b,j,h] / sqrt(head_dim)) v[b,j,h]
//   statistics[b,h,i] = log sum_j exp(q[b,i,h] . k[b,j,h] / sqrt(head_dim))
// with y[B, Q..., D] and statistics[B, heads, Q...], f32. Q... and K... are any number of
// dimensions; rows and columns of a picture count as one sequence. With q, k, v of one tensor it is
// self-attention. A device with a slice of D, cut between heads, runs the same op.
//
// cross_attention_grad(q, k, v, y, statistics, dy; head_dim) -> dq, dk, dv recomputes the
// probabilities, like attention_grad.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

void require_separate_qkv(const Op& op, std::span<const TensorType> inputs) {
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const std::int64_t head_dim = op.integer("head_dim");
  require(q.size() >= 3 && k.size() >= 3 && q.front() == k.front() && q.back() == k.back(), op,
          inputs,
          "q and k must have the shape [batch, positions..., width] with the same batch and width");
  require(inputs[2].shape == k, op, inputs, "k and v must have the same shape");
  require(head_dim > 0 && q.back() % head_dim == 0, op, inputs,
          "the width {} is not a multiple of head_dim {}", q.back(), head_dim);
}

TensorType cross_statistics_type(const Op& op, Shape q) {
  const std::int64_t heads = q.back() / op.integer("head_dim");
  q.pop_back();
  q.insert(q.begin() + 1, heads);
  return {DType::kF32, std::move(q)};
}

std::vector<TensorType> infer_cross_attention(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  require_separate_qkv(op, inputs);
  return {inputs[0], cross_statistics_type(op, inputs[0].shape)};
}

std::vector<TensorType> infer_cross_attention_grad(const Op& op,
                                                   std::span<const TensorType> inputs) {
  require_inputs(op, inputs,
                 {Element::kReal, Element::kReal, Element::kReal, Element::kReal, Element::kF32,
                  Element::kReal});
  require_separate_qkv(op, inputs);
  require(inputs[3] == inputs[0] && inputs[5] == inputs[0], op, inputs,
          "y and dy must have q's shape");
  require(inputs[4] == cross_statistics_type(op, inputs[0].shape), op, inputs,
          "the statistics must have the shape [batch, heads, positions...]");
  return {inputs[0], inputs[1], inputs[2]};
}

/// Returns the operations of one product of queries by keys by D, over the batch.
double cross_product_flops(std::span<const TensorType> inputs) {
  const Shape& k = inputs[1].shape;
  const double keys = inputs[1].elements() / static_cast<double>(k.front() * k.back());
  return 2.0 * inputs[0].elements() * keys;
}
double cross_attention_flops(const Op&, std::span<const TensorType> inputs) {
  return 2 * cross_product_flops(inputs);
}
double cross_attention_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return 5 * cross_product_flops(inputs);
}

FactorSignature cross_attention_signature(const Op& op, std::span<const TensorType> inputs) {
  enum : int { kBatch, kWidth };
  FactorSignature signature;
  signature.factors = {{FactorKind::kParallel, inputs[0].shape.front()},
                       {FactorKind::kParallel, inputs[0].shape.back(), op.integer("head_dim")}};
  const auto dimensions = [&](const Shape& shape) {
    std::vector<int> result{kBatch};
    for (std::size_t d = 1; d + 1 < shape.size(); ++d) {
      result.push_back(signature.factors.size());
      signature.factors.push_back({FactorKind::kWhole, shape[d]});
    }
    result.push_back(kWidth);
    return result;
  };
  const std::vector<int> queries = dimensions(inputs[0].shape), keys = dimensions(inputs[1].shape);
  std::vector<int> statistics{kBatch, kWidth};
  statistics.insert(statistics.end(), queries.begin() + 1, queries.end() - 1);
  if (op.kind == OpKind::kCrossAttention) {
    signature.inputs = {queries, keys, keys};
    signature.outputs = {queries, statistics};
  } else {
    signature.inputs = {queries, keys, keys, queries, statistics, queries};
    signature.outputs = {queries, keys, keys};
    signature.linear_in = {{5}};
  }
  return signature;
}

void differentiate_cross_attention(GradientRule& rule) {
  if (!rule.needs_gradient(0) && !rule.needs_gradient(1) && !rule.needs_gradient(2)) return;
  const Op op{OpKind::kCrossAttentionGrad, {{"head_dim", rule.node().op.integer("head_dim")}}};
  std::vector<ValueId> inputs = rule.node().inputs;
  const std::vector<ValueId>& outputs = rule.node().outputs;
  inputs.insert(inputs.end(), {outputs[0], outputs[1], *rule.output_gradient()});
  const std::vector<ValueId> gradients = rule.emit(op, inputs, Pass::kInputGrad);
  for (const std::size_t i : {0, 1, 2}) {
    if (rule.needs_gradient(i)) rule.contribute(i, gradients[i]);
  }
}

}  // namespace

ValueId GraphBuilder::cross_attention(ValueId q, ValueId k, ValueId v, std::int64_t head_dim) {
  return append({OpKind::kCrossAttention, {{"head_dim", head_dim}}}, {q, k, v});
}

const OpDefinition kCrossAttentionDefinition{infer_cross_attention, cross_attention_flops,
                                             cross_attention_signature,
                                             differentiate_cross_attention};
const OpDefinition kCrossAttentionGradDefinition{
    infer_cross_attention_grad, cross_attention_grad_flops, cross_attention_signature, nullptr};

}  // namespace weft
