// Cross-entropy (core/ops/cross_entropy.cc) in parts, for rows of logits split over devices. A
// device has columns [first, first + count) of the vocabulary. Columns from `columns` on are
// padding and count as minus infinity.
//
// cross_entropy_moments(logits[..., V], targets i32[...]; slice_width, first, count, columns) ->
//   f32[..., V / slice_width, 3]: for each slice of a row the maximum, the sum of exp(logit -
//   maximum), and the target's logit, or 0 if the target is in another slice. A slice of padding
//   has (-infinity, 0, 0).
// cross_entropy_statistics(moments[..., n, 3]) -> f32[..., 3]: the same three numbers for the whole
//   row; merges slices in their order.
// cross_entropy_of_statistics(statistics[..., 3], weights f32[...]?; scale) -> f32 scalar: scale *
//   sum over t of weights[t] * (log(sum[t]) + maximum[t] - target's logit[t]), in double in index
//   order.
// cross_entropy_apply_grad(logits, targets, statistics, weights?; scale, first, count, columns) ->
//   dlogits = scale * weights * (exp(logits - maximum) / sum - onehot(targets)); 0 for padding.
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

void require_slice(const Op& op, std::span<const TensorType> inputs, std::int64_t size) {
  require(op.integer("count") == size && op.integer("first") >= 0, op, inputs,
          "count must be the number of columns on this device");
}

Shape tokens_of(const Shape& logits) { return {logits.begin(), logits.end() - 1}; }

void require_logits_here(const Op& op, std::span<const TensorType> inputs) {
  const Shape& logits = inputs[0].shape;
  require(!logits.empty() && inputs[1].shape == tokens_of(logits), op, inputs,
          "targets must have the shape of the logits without the last dimension");
  require_slice(op, inputs, logits.back());
}

Shape with_numbers(Shape tokens, std::int64_t numbers) {
  tokens.push_back(numbers);
  return tokens;
}

std::vector<TensorType> infer_logit_moments(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kId});
  require_logits_here(op, inputs);
  const Shape& logits = inputs[0].shape;
  const std::int64_t width = op.integer("slice_width");
  require(width >= 1 && logits.back() % width == 0, op, inputs,
          "the logits' last dimension must be a multiple of slice_width");
  return {{DType::kF32, with_numbers(with_numbers(tokens_of(logits), logits.back() / width), 3)}};
}

std::vector<TensorType> infer_logit_statistics(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kF32});
  const Shape& moments = inputs[0].shape;
  require(moments.size() >= 2 && moments.back() == 3, op, inputs,
          "the moments must end in [slices, 3]");
  return {{DType::kF32, with_numbers(Shape(moments.begin(), moments.end() - 2), 3)}};
}

std::vector<TensorType> infer_logit_of_statistics(const Op& op,
                                                  std::span<const TensorType> inputs) {
  if (inputs.size() == 2) {
    require_inputs(op, inputs, {Element::kF32, Element::kF32});
  } else {
    require_inputs(op, inputs, {Element::kF32});
  }
  const Shape& statistics = inputs[0].shape;
  require(!statistics.empty() && statistics.back() == 3, op, inputs,
          "the statistics must end in 3");
  require(inputs.size() == 1 || inputs[1].shape == tokens_of(statistics), op, inputs,
          "weights must have the shape of the targets");
  return {{DType::kF32, {}}};
}

std::vector<TensorType> infer_logit_apply_grad(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() == 4) {
    require_inputs(op, inputs, {Element::kReal, Element::kId, Element::kF32, Element::kF32});
    require(inputs[3].shape == inputs[1].shape, op, inputs,
            "weights must have the shape of the targets");
  } else {
    require_inputs(op, inputs, {Element::kReal, Element::kId, Element::kF32});
  }
  require_logits_here(op, inputs);
  require(inputs[2].shape == with_numbers(inputs[1].shape, 3), op, inputs,
          "the statistics must have the shape of the targets with 3 appended");
  return {inputs[0]};
}

std::vector<Factor> token_factors(FactorKind kind, const Shape& shape, std::size_t tokens) {
  std::vector<Factor> factors;
  for (std::size_t d = 0; d < tokens; ++d) factors.push_back({kind, shape[d]});
  return factors;
}

FactorSignature logit_moments_signature(const Op& op, std::span<const TensorType> inputs) {
  const Shape& logits = inputs[0].shape;
  const std::size_t tokens = logits.size() - 1;
  FactorSignature signature;
  signature.factors = token_factors(FactorKind::kParallel, logits, tokens);
  signature.factors.push_back({FactorKind::kParallel, logits.back(), op.integer("slice_width")});
  signature.factors.push_back({FactorKind::kWhole, 3});
  signature.inputs = {factor_range(0, tokens + 1), factor_range(0, tokens)};
  signature.outputs = {factor_range(0, tokens + 2)};
  signature.sliced_factor = static_cast<int>(tokens);
  return signature;
}

FactorSignature logit_statistics_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& moments = inputs[0].shape;
  const std::size_t tokens = moments.size() - 2;
  FactorSignature signature;
  signature.factors = token_factors(FactorKind::kParallel, moments, tokens);
  for (const std::int64_t size : {moments[tokens], moments[tokens + 1]})
    signature.factors.push_back({FactorKind::kWhole, size});
  signature.inputs = {factor_range(0, tokens + 2)};
  signature.outputs = {factor_range(0, tokens)};
  signature.outputs[0].push_back(static_cast<int>(tokens) + 1);
  return signature;
}

FactorSignature logit_of_statistics_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& statistics = inputs[0].shape;
  const std::size_t tokens = statistics.size() - 1;
  FactorSignature signature;
  signature.factors = token_factors(FactorKind::kReduction, statistics, tokens);
  signature.factors.push_back({FactorKind::kWhole, 3});
  signature.inputs.assign(inputs.size(), factor_range(0, tokens));
  signature.inputs[0] = factor_range(0, tokens + 1);
  signature.outputs = {{}};
  return signature;
}

FactorSignature logit_apply_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& logits = inputs[0].shape;
  const std::size_t tokens = logits.size() - 1;
  FactorSignature signature;
  signature.factors = token_factors(FactorKind::kParallel, logits, tokens);
  signature.factors.push_back({FactorKind::kParallel, logits.back()});
  signature.factors.push_back({FactorKind::kWhole, 3});
  signature.inputs.assign(inputs.size(), factor_range(0, tokens));
  signature.inputs[0] = factor_range(0, tokens + 1);
  signature.inputs[2].push_back(static_cast<int>(tokens) + 1);
  signature.outputs = {factor_range(0, tokens + 1)};
  signature.sliced_factor = static_cast<int>(tokens);
  return signature;
}

}  // namespace

const OpDefinition kCrossEntropyMomentsDefinition{infer_logit_moments, flops_per_element<4>,
                                                  logit_moments_signature, nullptr};
const OpDefinition kCrossEntropyStatisticsDefinition{infer_logit_statistics, flops_per_element<2>,
                                                     logit_statistics_signature, nullptr};
const OpDefinition kCrossEntropyOfStatisticsDefinition{
    infer_logit_of_statistics, flops_per_element<1>, logit_of_statistics_signature, nullptr};
const OpDefinition kCrossEntropyApplyGradDefinition{infer_logit_apply_grad, flops_per_element<4>,
                                                    logit_apply_grad_signature, nullptr, 0};

}  // namespace weft
