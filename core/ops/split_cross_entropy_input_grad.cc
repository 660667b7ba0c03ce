// Gradient of a linear's input through a cross-entropy (core/ops/split_cross_entropy.cc), with
// little work left once the statistics are known: "Vocab-2" of Yeung et al., Balancing Pipeline
// Parallelism with Vocabulary Parallelism (arXiv 2411.05288). With logits = x W, slices k of the
// vocabulary with moments (max_k, ...), and statistics (max, sum) of the rows:
//
//   E = exp(logits - max_k)      cross_entropy_numerators
//   A_k = E_k W_k^T              linear_slice_input_grad
//   R_k = onehot_k W_k^T         target_rows
//   dx = scale * weight * sum over k of (exp(max_k - max) / sum * A_k - R_k)
//                                cross_entropy_combined_input_grad
//
// Only the last op needs the statistics. W is [width, V], or [V, width] if `transposed` (a table
// that is also an embedding). As in split_cross_entropy.cc a device has columns [first, first +
// count), columns from `columns` on are padding, and slices are `slice_width` wide.
//
// cross_entropy_numerators(logits[..., V], moments f32[..., V / slice_width, 3]; slice_width,
//   first, count, columns) -> E[..., V], from 0 to 1; 0 for padding.
// linear_slice_input_grad(E[..., V], W; slice_width, transposed) -> A f32[..., V / slice_width,
//   width]. f32 even in a bf16 model, as A_k and R_k almost cancel near the end of training.
// target_rows(W, targets i32[...]; slice_width, transposed, first, count, columns) -> R[..., V /
//   slice_width, width]: the target's column of W in the slice that has the target, else zeros.
// cross_entropy_combined_input_grad(moments[..., n, 3], statistics[..., 3], A[..., n, width],
//   R[..., n, width], weights f32[...]?; scale) -> dx[..., width]
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

/// Returns the shape of `tokens`, followed by `more`.
Shape joined(std::span<const std::int64_t> tokens, std::initializer_list<std::int64_t> more) {
  Shape shape(tokens.begin(), tokens.end());
  shape.insert(shape.end(), more);
  return shape;
}

std::span<const std::int64_t> without_last(const Shape& shape, std::size_t count) {
  return std::span(shape).first(shape.size() - count);
}

/// Returns the number of slices in `columns` columns.
std::int64_t slices_of(const Op& op, std::span<const TensorType> inputs, std::int64_t columns) {
  const std::int64_t width = op.integer("slice_width");
  require(width >= 1 && columns % width == 0, op, inputs,
          "the vocabulary's size here must be a multiple of slice_width");
  return columns / width;
}

void require_columns_here(const Op& op, std::span<const TensorType> inputs, std::int64_t columns) {
  require(op.integer("count") == columns && op.integer("first") >= 0, op, inputs,
          "count must be the number of columns that are here");
}

/// Dimensions of W in a graph.
struct WeightShape {
  std::int64_t columns = 0, width = 0;
};
WeightShape weight_shape(const Op& op, std::span<const TensorType> inputs, std::size_t weight) {
  const Shape& shape = inputs[weight].shape;
  require(shape.size() == 2, op, inputs, "w must have two dimensions");
  return op.integer("transposed") != 0 ? WeightShape{shape[0], shape[1]}
                                       : WeightShape{shape[1], shape[0]};
}
/// Returns the factors of W's dimensions.
std::vector<int> weight_factors(const Op& op, int columns, int width) {
  return op.integer("transposed") != 0 ? std::vector<int>{columns, width}
                                       : std::vector<int>{width, columns};
}

std::vector<TensorType> infer_numerators(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kF32});
  const Shape& logits = inputs[0].shape;
  require(!logits.empty(), op, inputs, "the logits need a dimension");
  require_columns_here(op, inputs, logits.back());
  require(
      inputs[1].shape == joined(without_last(logits, 1), {slices_of(op, inputs, logits.back()), 3}),
      op, inputs, "the moments must be those of the logits' slices");
  return {inputs[0]};
}

std::vector<TensorType> infer_slice_input_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const WeightShape w = weight_shape(op, inputs, 1);
  const Shape& numerators = inputs[0].shape;
  require(!numerators.empty() && numerators.back() == w.columns, op, inputs,
          "the last dimension must be that of w that is the vocabulary");
  return {{DType::kF32,
           joined(without_last(numerators, 1), {slices_of(op, inputs, w.columns), w.width})}};
}

std::vector<TensorType> infer_target_rows(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal, Element::kId});
  const WeightShape w = weight_shape(op, inputs, 0);
  require_columns_here(op, inputs, w.columns);
  return {{real, joined(inputs[1].shape, {slices_of(op, inputs, w.columns), w.width})}};
}

std::vector<TensorType> infer_combined(const Op& op, std::span<const TensorType> inputs) {
  const bool has_weights = inputs.size() == 5;
  const DType real =
      has_weights ? require_inputs(op, inputs,
                                   {Element::kF32, Element::kF32, Element::kF32, Element::kReal,
                                    Element::kF32})
                  : require_inputs(op, inputs,
                                   {Element::kF32, Element::kF32, Element::kF32, Element::kReal});
  const Shape& rows = inputs[3].shape;
  require(rows.size() >= 2 && inputs[2].shape == rows, op, inputs,
          "the products and the targets' rows must both end in [slices, width]");
  const auto tokens = without_last(rows, 2);
  require(inputs[0].shape == joined(tokens, {rows[tokens.size()], 3}), op, inputs,
          "the moments must have 3 in place of the width");
  require(inputs[1].shape == joined(tokens, {3}), op, inputs,
          "the statistics must end in 3, after the tokens");
  require(!has_weights || inputs[4].shape == joined(tokens, {}), op, inputs,
          "weights must have the shape of the targets");
  return {{real, joined(tokens, {rows.back()})}};
}

double slice_input_grad_flops(const Op& op, std::span<const TensorType> inputs) {
  return 2.0 * inputs[0].elements() * weight_shape(op, inputs, 1).width;
}
/// Returns one multiplication, subtraction and addition per element of the products.
double combined_flops(const Op&, std::span<const TensorType> inputs) {
  return 3.0 * inputs[2].elements();
}

std::vector<Factor> parallel_tokens(std::span<const std::int64_t> tokens) {
  std::vector<Factor> factors;
  for (const std::int64_t size : tokens) factors.push_back({FactorKind::kParallel, size});
  return factors;
}

/// Factors: tokens, vocabulary, moments.
FactorSignature numerators_signature(const Op& op, std::span<const TensorType> inputs) {
  const Shape& logits = inputs[0].shape;
  const std::size_t tokens = logits.size() - 1;
  FactorSignature signature;
  signature.factors = parallel_tokens(without_last(logits, 1));
  signature.factors.push_back({FactorKind::kParallel, logits.back(), op.integer("slice_width")});
  signature.factors.push_back({FactorKind::kWhole, 3});
  signature.inputs = {factor_range(0, tokens + 1), factor_range(0, tokens + 2)};
  signature.outputs = {factor_range(0, tokens + 1)};
  signature.sliced_factor = static_cast<int>(tokens);
  return signature;
}

/// Factors: tokens, vocabulary, width.
FactorSignature slice_input_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const WeightShape w = weight_shape(op, inputs, 1);
  const std::size_t tokens = inputs[0].shape.size() - 1;
  const int columns = static_cast<int>(tokens);
  FactorSignature signature;
  signature.factors = parallel_tokens(without_last(inputs[0].shape, 1));
  signature.factors.push_back({FactorKind::kParallel, w.columns, op.integer("slice_width")});
  signature.factors.push_back({FactorKind::kParallel, w.width});
  signature.inputs = {factor_range(0, tokens + 1), weight_factors(op, columns, columns + 1)};
  signature.outputs = {factor_range(0, tokens + 2)};
  signature.linear_in = {{0}, {1}};
  return signature;
}

/// Factors: tokens, vocabulary, width.
FactorSignature target_rows_signature(const Op& op, std::span<const TensorType> inputs) {
  const WeightShape w = weight_shape(op, inputs, 0);
  const std::size_t tokens = inputs[1].shape.size();
  const int columns = static_cast<int>(tokens);
  FactorSignature signature;
  signature.factors = parallel_tokens(inputs[1].shape);
  signature.factors.push_back({FactorKind::kParallel, w.columns, op.integer("slice_width")});
  signature.factors.push_back({FactorKind::kParallel, w.width});
  signature.inputs = {weight_factors(op, columns, columns + 1), factor_range(0, tokens)};
  signature.outputs = {factor_range(0, tokens + 2)};
  signature.linear_in = {{0}};
  signature.sliced_factor = columns;
  return signature;
}

/// Factors: tokens, slices, width, moments.
FactorSignature combined_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& rows = inputs[3].shape;
  const std::size_t tokens = rows.size() - 2;
  const int slices = static_cast<int>(tokens), width = slices + 1, three = slices + 2;
  FactorSignature signature;
  signature.factors = parallel_tokens(without_last(rows, 2));
  signature.factors.push_back({FactorKind::kReduction, rows[tokens]});
  signature.factors.push_back({FactorKind::kParallel, rows.back()});
  signature.factors.push_back({FactorKind::kWhole, 3});
  signature.inputs.assign(inputs.size(), factor_range(0, tokens));
  signature.inputs[0].insert(signature.inputs[0].end(), {slices, three});
  signature.inputs[1].push_back(three);
  for (const std::size_t i : {2, 3})
    signature.inputs[i].insert(signature.inputs[i].end(), {slices, width});
  signature.outputs = {factor_range(0, tokens)};
  signature.outputs[0].push_back(width);
  signature.linear_in = {{2, 3}};
  return signature;
}

}  // namespace

const OpDefinition kCrossEntropyNumeratorsDefinition{infer_numerators, flops_per_element<2>,
                                                     numerators_signature, nullptr};
const OpDefinition kLinearSliceInputGradDefinition{infer_slice_input_grad, slice_input_grad_flops,
                                                   slice_input_grad_signature, nullptr};
const OpDefinition kTargetRowsDefinition{infer_target_rows, no_flops, target_rows_signature,
                                         nullptr};
const OpDefinition kCrossEntropyCombinedInputGradDefinition{infer_combined, combined_flops,
                                                            combined_signature, nullptr};

}  // namespace weft
