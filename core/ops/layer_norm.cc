// layer_norm(x[..., H], gamma[H], beta[H]; epsilon):
//   (x - mean) / sqrt(variance + epsilon) * gamma + beta
// over the last dimension, with the biased variance.
// layer_norm_input_grad(x, gamma, dy; epsilon) -> dx
// layer_norm_weight_grad(x, dy; epsilon) -> dgamma f32, dbeta f32
// Backward recomputes mean and variance. This is almost free, as the row is in the L1 cache, and no
// statistics must be kept for the microbatches in flight.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

Op with_epsilon(OpKind kind, const Op& op) { return {kind, {{"epsilon", op.real("epsilon")}}}; }

std::vector<TensorType> infer_layer_norm(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  const Shape& x = inputs[0].shape;
  require(!x.empty(), op, inputs, "x must have at least one dimension");
  const Shape row{x.back()};
  require(inputs[1].shape == row && inputs[2].shape == row, op, inputs,
          "gamma and beta must have the shape {}", to_string(row));
  return {inputs[0]};
}

std::vector<TensorType> infer_layer_norm_input_grad(const Op& op,
                                                    std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  const Shape& x = inputs[0].shape;
  require(!x.empty() && inputs[1].shape == Shape{x.back()}, op, inputs,
          "gamma must have x's last dimension");
  require(inputs[2].shape == x, op, inputs, "x and dy must have the same shape");
  return {inputs[0]};
}

std::vector<TensorType> infer_layer_norm_weight_grad(const Op& op,
                                                     std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require(!inputs[0].shape.empty() && inputs[0] == inputs[1], op, inputs,
          "x and dy must have the same shape");
  const TensorType row{DType::kF32, {inputs[0].shape.back()}};
  return {row, row};
}

/// Returns the factors: leading dimensions of `kind`, then the normalised one, whole.
std::vector<Factor> layer_norm_factors(const Shape& x, FactorKind kind) {
  std::vector<Factor> factors;
  for (std::size_t d = 0; d + 1 < x.size(); ++d) factors.push_back({kind, x[d]});
  factors.push_back({FactorKind::kWhole, x.back()});
  return factors;
}

FactorSignature layer_norm_signature(const Op&, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {
      layer_norm_factors(inputs[0].shape, FactorKind::kParallel), {all, row, row}, {all}, {}, {}};
}

FactorSignature layer_norm_input_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {layer_norm_factors(inputs[0].shape, FactorKind::kParallel),
          {all, row, all},
          {all},
          {},
          {{1}, {2}}};
}

FactorSignature layer_norm_weight_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {layer_norm_factors(inputs[0].shape, FactorKind::kReduction),
          {all, all},
          {row, row},
          {},
          {{1}}};
}

void differentiate_layer_norm(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const Op op = rule.node().op;
  const ValueId dy = *rule.output_gradient();
  if (rule.needs_gradient(0)) {
    rule.contribute(0, rule.emit(with_epsilon(OpKind::kLayerNormInputGrad, op),
                                 {inputs[0], inputs[1], dy}, Pass::kInputGrad)[0]);
  }
  if (rule.needs_gradient(1) || rule.needs_gradient(2)) {
    const auto gradients =
        rule.emit(with_epsilon(OpKind::kLayerNormWeightGrad, op), {inputs[0], dy}, rule.pass_of(1));
    if (rule.needs_gradient(1)) rule.contribute(1, gradients[0]);
    if (rule.needs_gradient(2)) rule.contribute(2, gradients[1]);
  }
}

}  // namespace

ValueId GraphBuilder::layer_norm(ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return append({OpKind::kLayerNorm, {{"epsilon", epsilon}}}, {x, gamma, beta});
}

const OpDefinition kLayerNormDefinition{infer_layer_norm, flops_per_element<7>,
                                        layer_norm_signature, differentiate_layer_norm, 0};
const OpDefinition kLayerNormInputGradDefinition{infer_layer_norm_input_grad, flops_per_element<14>,
                                                 layer_norm_input_grad_signature, nullptr, 2};
const OpDefinition kLayerNormWeightGradDefinition{
    infer_layer_norm_weight_grad, flops_per_element<9>, layer_norm_weight_grad_signature, nullptr};

}  // namespace weft
