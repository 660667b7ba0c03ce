// Layer norm (core/ops/layer_norm.cc) in parts, for rows split over devices:
//
// layer_norm_moments(x[..., H]; slice_width) -> f32[..., H / slice_width, 2]: for each slice of a
//   row the mean and the sum of squared deviations from it.
// layer_norm_statistics(moments[..., n, 2]; slice_width, epsilon) -> f32[..., 2]: mean and 1 /
//   sqrt(variance + epsilon) of the row of n slices. Merges slices in their order (Chan, Golub and
//   LeVeque 1979, equation 2.1), which avoids differences of large squares for any mean.
// layer_norm_apply(x, statistics, gamma[H], beta[H]) -> (x - mean) / deviation * gamma + beta.
// layer_norm_gradient_sums(x, statistics, gamma, dy) -> f32[..., 2]: the row's sums of g and of g *
//   (x - mean), where g = dy * gamma.
// layer_norm_apply_input_grad(x, statistics, gamma, dy, sums; width) -> dx; width is that of the
//   whole row.
// layer_norm_apply_weight_grad(x, statistics, dy) -> dgamma f32[H], dbeta f32[H].
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

/// Returns the shape of x with its last dimension replaced.
Shape with_last(const Shape& x, std::initializer_list<std::int64_t> last) {
  Shape shape(x.begin(), x.end() - 1);
  shape.insert(shape.end(), last);
  return shape;
}

void require_statistics(const Op& op, std::span<const TensorType> inputs, const TensorType& of,
                        std::size_t index) {
  require(inputs[index].shape == with_last(of.shape, {2}), op, inputs,
          "the statistics must have x's shape with 2 as the last dimension");
}

std::vector<TensorType> infer_row_moments(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal});
  const std::int64_t width = op.integer("slice_width");
  require(!inputs[0].shape.empty() && width >= 1 && inputs[0].shape.back() % width == 0, op, inputs,
          "x's last dimension must be a multiple of slice_width");
  return {{DType::kF32, with_last(inputs[0].shape, {inputs[0].shape.back() / width, 2})}};
}

std::vector<TensorType> infer_row_statistics(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kF32});
  const Shape& moments = inputs[0].shape;
  require(moments.size() >= 2 && moments.back() == 2, op, inputs,
          "the moments must end in [slices, 2]");
  Shape shape(moments.begin(), moments.end() - 2);
  shape.push_back(2);
  return {{DType::kF32, std::move(shape)}};
}

std::vector<TensorType> infer_row_apply(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kF32, Element::kReal, Element::kReal});
  require(!inputs[0].shape.empty(), op, inputs, "x must have at least one dimension");
  require_statistics(op, inputs, inputs[0], 1);
  const Shape row{inputs[0].shape.back()};
  require(inputs[2].shape == row && inputs[3].shape == row, op, inputs,
          "gamma and beta must have the shape {}", to_string(row));
  return {inputs[0]};
}

void require_gradient_inputs(const Op& op, std::span<const TensorType> inputs) {
  require(!inputs[0].shape.empty() && inputs[2].shape == Shape{inputs[0].shape.back()}, op, inputs,
          "gamma must have x's last dimension");
  require_statistics(op, inputs, inputs[0], 1);
  require(inputs[3].shape == inputs[0].shape, op, inputs, "x and dy must have the same shape");
}

std::vector<TensorType> infer_row_gradient_sums(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kF32, Element::kReal, Element::kReal});
  require_gradient_inputs(op, inputs);
  return {inputs[1]};
}

std::vector<TensorType> infer_row_apply_input_grad(const Op& op,
                                                   std::span<const TensorType> inputs) {
  require_inputs(op, inputs,
                 {Element::kReal, Element::kF32, Element::kReal, Element::kReal, Element::kF32});
  require_gradient_inputs(op, inputs);
  require_statistics(op, inputs, inputs[0], 4);
  require(op.integer("width") >= inputs[0].shape.back(), op, inputs,
          "width is that of the whole row");
  return {inputs[0]};
}

std::vector<TensorType> infer_row_apply_weight_grad(const Op& op,
                                                    std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kF32, Element::kReal});
  require(!inputs[0].shape.empty() && inputs[0].shape == inputs[2].shape, op, inputs,
          "x and dy must have the same shape");
  require_statistics(op, inputs, inputs[0], 1);
  const TensorType row{DType::kF32, {inputs[0].shape.back()}};
  return {row, row};
}

/// Factors of the dimensions of x, and of the two numbers of a row.
struct RowFactors {
  std::vector<Factor> factors;
  std::vector<int> all, row, statistics;
};

RowFactors row_factors(const Shape& x, FactorKind leading, FactorKind last,
                       std::int64_t granularity = 1) {
  const std::size_t rank = x.size();
  RowFactors result;
  for (std::size_t d = 0; d + 1 < rank; ++d) result.factors.push_back({leading, x[d]});
  result.factors.push_back({last, x.back(), granularity});
  result.factors.push_back({FactorKind::kWhole, 2});
  result.all = factor_range(0, rank);
  result.row = factor_range(rank - 1, 1);
  result.statistics = factor_range(0, rank - 1);
  result.statistics.push_back(static_cast<int>(rank));
  return result;
}

FactorSignature row_moments_signature(const Op& op, std::span<const TensorType> inputs) {
  RowFactors f = row_factors(inputs[0].shape, FactorKind::kParallel, FactorKind::kParallel,
                             op.integer("slice_width"));
  const std::vector<int> moments = factor_range(0, inputs[0].shape.size() + 1);
  return {std::move(f.factors), {f.all}, {moments}, {}, {}};
}

FactorSignature row_statistics_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& moments = inputs[0].shape;
  const std::size_t rank = moments.size();
  FactorSignature signature;
  for (std::size_t d = 0; d < rank; ++d)
    signature.factors.push_back(
        {d + 2 < rank ? FactorKind::kParallel : FactorKind::kWhole, moments[d]});
  signature.inputs = {factor_range(0, rank)};
  signature.outputs = {factor_range(0, rank - 2)};
  signature.outputs[0].push_back(static_cast<int>(rank) - 1);
  return signature;
}

FactorSignature row_apply_signature(const Op&, std::span<const TensorType> inputs) {
  RowFactors f = row_factors(inputs[0].shape, FactorKind::kParallel, FactorKind::kParallel);
  return {std::move(f.factors), {f.all, f.statistics, f.row, f.row}, {f.all}, {}, {}};
}

FactorSignature row_gradient_sums_signature(const Op&, std::span<const TensorType> inputs) {
  RowFactors f = row_factors(inputs[0].shape, FactorKind::kParallel, FactorKind::kReduction);
  return {
      std::move(f.factors), {f.all, f.statistics, f.row, f.all}, {f.statistics}, {}, {{2}, {3}}};
}

FactorSignature row_apply_input_grad_signature(const Op&, std::span<const TensorType> inputs) {
  RowFactors f = row_factors(inputs[0].shape, FactorKind::kParallel, FactorKind::kParallel);
  return {std::move(f.factors),
          {f.all, f.statistics, f.row, f.all, f.statistics},
          {f.all},
          {},
          {{3, 4}}};
}

FactorSignature row_apply_weight_grad_signature(const Op&, std::span<const TensorType> inputs) {
  RowFactors f = row_factors(inputs[0].shape, FactorKind::kReduction, FactorKind::kParallel);
  return {std::move(f.factors), {f.all, f.statistics, f.all}, {f.row, f.row}, {}, {{2}}};
}

}  // namespace

const OpDefinition kLayerNormMomentsDefinition{infer_row_moments, flops_per_element<4>,
                                               row_moments_signature, nullptr};
const OpDefinition kLayerNormStatisticsDefinition{infer_row_statistics, flops_per_element<5>,
                                                  row_statistics_signature, nullptr};
const OpDefinition kLayerNormApplyDefinition{infer_row_apply, flops_per_element<4>,
                                             row_apply_signature, nullptr, 0};
const OpDefinition kLayerNormGradientSumsDefinition{infer_row_gradient_sums, flops_per_element<5>,
                                                    row_gradient_sums_signature, nullptr};
const OpDefinition kLayerNormApplyInputGradDefinition{
    infer_row_apply_input_grad, flops_per_element<7>, row_apply_input_grad_signature, nullptr, 3};
const OpDefinition kLayerNormApplyWeightGradDefinition{
    infer_row_apply_weight_grad, flops_per_element<5>, row_apply_weight_grad_signature, nullptr};

}  // namespace weft
