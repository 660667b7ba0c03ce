// embedding(table[V,H], ids i32[...]) -> [..., H] returns row ids[t] of the table for every t. An
// id outside [0, V) is an error when the op runs.
//
// embedding_grad(ids, dy; rows=V) -> dtable f32[V,H] adds every row of dy to the row of its id, in
// index order.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_embedding(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal, Element::kId});
  require(inputs[0].shape.size() == 2, op, inputs,
          "the table must have the shape [vocabulary, width]");
  Shape y = inputs[1].shape;
  y.push_back(inputs[0].shape[1]);
  return {{real, y}};
}

std::vector<TensorType> infer_embedding_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kId, Element::kReal});
  const Shape& ids = inputs[0].shape;
  const Shape& dy = inputs[1].shape;
  require(dy.size() == ids.size() + 1 && std::equal(ids.begin(), ids.end(), dy.begin()), op, inputs,
          "dy must have the shape of ids with the width appended");
  return {{DType::kF32, {op.integer("rows"), dy.back()}}};
}

double embedding_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return inputs[1].elements();
}

FactorSignature embedding_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& ids = inputs[1].shape;
  const std::size_t tokens = ids.size();
  FactorSignature signature;
  for (const std::int64_t size : ids) signature.factors.push_back({FactorKind::kParallel, size});
  signature.factors.push_back({FactorKind::kParallel, inputs[0].shape[1]});
  signature.factors.push_back({FactorKind::kWhole, inputs[0].shape[0]});
  signature.inputs = {{static_cast<int>(tokens) + 1, static_cast<int>(tokens)},
                      factor_range(0, tokens)};
  signature.outputs = {factor_range(0, tokens + 1)};
  signature.linear_in = {{0}};
  return signature;
}

FactorSignature embedding_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const Shape& dy = inputs[1].shape;
  const std::size_t tokens = dy.size() - 1;
  FactorSignature signature;
  for (std::size_t d = 0; d < tokens; ++d)
    signature.factors.push_back({FactorKind::kReduction, dy[d]});
  signature.factors.push_back({FactorKind::kParallel, dy.back()});
  signature.factors.push_back({FactorKind::kWhole, op.integer("rows")});
  signature.inputs = {factor_range(0, tokens), factor_range(0, tokens + 1)};
  signature.outputs = {{static_cast<int>(tokens) + 1, static_cast<int>(tokens)}};
  signature.linear_in = {{1}};
  return signature;
}

void differentiate_embedding(GradientRule& rule) {
  if (!rule.needs_gradient(0)) return;
  const ValueId table = rule.node().inputs[0], ids = rule.node().inputs[1];
  const Op op{OpKind::kEmbeddingGrad, {{"rows", rule.type(table).shape[0]}}};
  rule.contribute(0, rule.emit(op, {ids, *rule.output_gradient()}, rule.pass_of(0))[0]);
}

}  // namespace

ValueId GraphBuilder::embedding(ValueId table, ValueId ids) {
  return append({OpKind::kEmbedding, {}}, {table, ids});
}

const OpDefinition kEmbeddingDefinition{infer_embedding, no_flops, embedding_signature,
                                        differentiate_embedding};
const OpDefinition kEmbeddingGradDefinition{infer_embedding_grad, embedding_grad_flops,
                                            embedding_grad_signature, nullptr};

}  // namespace weft
