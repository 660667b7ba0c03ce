// group_norm(x[B, ..., C], gamma[C], beta[C]; group_size, epsilon):
//   (x - mean) / sqrt(variance + epsilon) * gamma + beta
// with mean and (biased) variance over a group of one sample: all positions of group_size adjacent
// channels.
// group_norm_input_grad(x, gamma, dy; ...) -> dx
// group_norm_weight_grad(x, dy; ...) -> dgamma f32, dbeta f32
// The attribute is the size of a group, not the number of groups, so that a device with a subset of
// the groups runs the same op. Backward recomputes the statistics in one more pass over x, instead
// of keeping them for every microbatch in flight.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

Op with_attributes(OpKind kind, const Op& op) {
  return {kind, {{"group_size", op.integer("group_size")}, {"epsilon", op.real("epsilon")}}};
}

void require_groups(const Op& op, std::span<const TensorType> inputs) {
  const Shape& x = inputs[0].shape;
  const std::int64_t size = op.integer("group_size");
  require(x.size() >= 2, op, inputs, "x must have the shape [batch, ..., channels]");
  require(size >= 1 && x.back() % size == 0, op, inputs,
          "{} channels are not a multiple of group_size {}", x.back(), size);
}

std::vector<TensorType> infer_group_norm(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  require_groups(op, inputs);
  const Shape row{inputs[0].shape.back()};
  require(inputs[1].shape == row && inputs[2].shape == row, op, inputs,
          "gamma and beta must have the shape {}", to_string(row));
  return {inputs[0]};
}

std::vector<TensorType> infer_group_norm_input_grad(const Op& op,
                                                    std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  require_groups(op, inputs);
  require(inputs[1].shape == Shape{inputs[0].shape.back()}, op, inputs,
          "gamma must have x's last dimension");
  require(inputs[2] == inputs[0], op, inputs, "x and dy must have the same shape");
  return {inputs[0]};
}

std::vector<TensorType> infer_group_norm_weight_grad(const Op& op,
                                                     std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require_groups(op, inputs);
  require(inputs[0] == inputs[1], op, inputs, "x and dy must have the same shape");
  const TensorType row{DType::kF32, {inputs[0].shape.back()}};
  return {row, row};
}

/// Returns the factors: batch of kind `batch`, positions whole, channels parallel between groups.
std::vector<Factor> group_norm_factors(const Op& op, const Shape& x, FactorKind batch) {
  std::vector<Factor> factors{{batch, x[0]}};
  for (std::size_t d = 1; d + 1 < x.size(); ++d) factors.push_back({FactorKind::kWhole, x[d]});
  factors.push_back({FactorKind::kParallel, x.back(), op.integer("group_size")});
  return factors;
}

FactorSignature group_norm_signature(const Op& op, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {group_norm_factors(op, inputs[0].shape, FactorKind::kParallel),
          {all, row, row},
          {all},
          {},
          {}};
}

FactorSignature group_norm_input_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {group_norm_factors(op, inputs[0].shape, FactorKind::kParallel),
          {all, row, all},
          {all},
          {},
          {{1}, {2}}};
}

FactorSignature group_norm_weight_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size();
  const auto all = factor_range(0, rank), row = factor_range(rank - 1, 1);
  return {group_norm_factors(op, inputs[0].shape, FactorKind::kReduction),
          {all, all},
          {row, row},
          {},
          {{1}}};
}

void differentiate_group_norm(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const Op op = rule.node().op;
  const ValueId dy = *rule.output_gradient();
  if (rule.needs_gradient(0)) {
    const Op grad = with_attributes(OpKind::kGroupNormInputGrad, op);
    rule.contribute(0, rule.emit(grad, {inputs[0], inputs[1], dy}, Pass::kInputGrad)[0]);
  }
  if (rule.needs_gradient(1) || rule.needs_gradient(2)) {
    const auto gradients = rule.emit(with_attributes(OpKind::kGroupNormWeightGrad, op),
                                     {inputs[0], dy}, rule.pass_of(1));
    if (rule.needs_gradient(1)) rule.contribute(1, gradients[0]);
    if (rule.needs_gradient(2)) rule.contribute(2, gradients[1]);
  }
}

}  // namespace

ValueId GraphBuilder::group_norm(ValueId x, ValueId gamma, ValueId beta, std::int64_t group_size,
                                 double epsilon) {
  return append({OpKind::kGroupNorm, {{"group_size", group_size}, {"epsilon", epsilon}}},
                {x, gamma, beta});
}

const OpDefinition kGroupNormDefinition{infer_group_norm, flops_per_element<7>,
                                        group_norm_signature, differentiate_group_norm, 0};
const OpDefinition kGroupNormInputGradDefinition{infer_group_norm_input_grad, flops_per_element<14>,
                                                 group_norm_input_grad_signature, nullptr, 2};
const OpDefinition kGroupNormWeightGradDefinition{
    infer_group_norm_weight_grad, flops_per_element<9>, group_norm_weight_grad_signature, nullptr};

}  // namespace weft
