// Embedding (core/ops/embedding.cc) with table rows split over devices. A device has rows [first,
// first + count). Rows from `rows` on are padding, to which no id refers. An id outside [0, rows)
// is an error when the op runs.
//
// embedding_slice(table[count, H], ids i32[...]; first, count, rows) -> [..., H]: row ids[t] of the
//   whole table if the slice contains it, else zeros. The sum over slices is the embedding.
// embedding_slice_grad(ids, dy; first, count, rows) -> dtable f32[count, H]: adds every row of dy
//   to the row of its id if the slice contains it, in index order.
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_slice(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal, Element::kId});
  require(inputs[0].shape.size() == 2 && inputs[0].shape[0] == op.integer("count"), op, inputs,
          "the table must have the shape [count, width]");
  Shape y = inputs[1].shape;
  y.push_back(inputs[0].shape[1]);
  return {{real, y}};
}

std::vector<TensorType> infer_slice_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kId, Element::kReal});
  const Shape &ids = inputs[0].shape, &dy = inputs[1].shape;
  require(dy.size() == ids.size() + 1 && std::equal(ids.begin(), ids.end(), dy.begin()), op, inputs,
          "dy must have the shape of ids with the width appended");
  return {{DType::kF32, {op.integer("count"), dy.back()}}};
}

double slice_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return static_cast<double>(inputs[1].elements());
}

/// Returns the factors: tokens, width, rows of the table.
FactorSignature slice_factors(const Shape& ids, std::int64_t width, std::int64_t rows,
                              FactorKind token_kind, FactorKind row_kind) {
  FactorSignature signature;
  for (const std::int64_t size : ids) signature.factors.push_back({token_kind, size});
  signature.factors.push_back({FactorKind::kParallel, width});
  signature.factors.push_back({row_kind, rows});
  signature.sliced_factor = static_cast<int>(ids.size()) + 1;
  return signature;
}

FactorSignature slice_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape &table = inputs[0].shape, &ids = inputs[1].shape;
  const int tokens = static_cast<int>(ids.size());
  FactorSignature signature =
      slice_factors(ids, table[1], table[0], FactorKind::kParallel, FactorKind::kReduction);
  signature.inputs = {{tokens + 1, tokens}, factor_range(0, ids.size())};
  signature.outputs = {factor_range(0, ids.size() + 1)};
  signature.linear_in = {{0}};
  return signature;
}

FactorSignature slice_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const Shape& ids = inputs[0].shape;
  const int tokens = static_cast<int>(ids.size());
  FactorSignature signature = slice_factors(ids, inputs[1].shape.back(), op.integer("count"),
                                            FactorKind::kReduction, FactorKind::kParallel);
  signature.inputs = {factor_range(0, ids.size()), factor_range(0, ids.size() + 1)};
  signature.outputs = {{tokens + 1, tokens}};
  signature.linear_in = {{1}};
  return signature;
}

}  // namespace

const OpDefinition kEmbeddingSliceDefinition{infer_slice, no_flops, slice_signature, nullptr};
const OpDefinition kEmbeddingSliceGradDefinition{infer_slice_grad, slice_grad_flops,
                                                 slice_grad_signature, nullptr};

}  // namespace weft
