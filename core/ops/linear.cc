// linear(x, w, bias): y[t..., n...] = sum_k x[t..., k] * w[k, n...] + bias[n...]. The bias is
// optional. The rank of w is at least 1: w[H,3,D] gives a packed qkv[B,S,3,D].
// linear_input_grad(dy, w):   dx[t..., k] = sum_n dy[t..., n...] * w[k, n...]
// linear_weight_grad(x, dy):  dw[k, n...] = sum_t x[t..., k] * dy[t..., n...], f32
// The bias's gradient is sum_leading(dy).
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/linear_factors.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

Shape join(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  Shape shape(a.begin(), a.end());
  shape.insert(shape.end(), b.begin(), b.end());
  return shape;
}

std::span<const std::int64_t> first(const Shape& shape, std::size_t count) {
  return std::span(shape).first(count);
}
std::span<const std::int64_t> from(const Shape& shape, std::size_t begin) {
  return std::span(shape).subspan(begin);
}

std::vector<TensorType> infer_linear(const Op& op, std::span<const TensorType> inputs) {
  const bool has_bias = inputs.size() == 3;
  const DType real =
      has_bias ? require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal})
               : require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  require(!x.empty() && !w.empty() && x.back() == w.front(), op, inputs,
          "x's last dimension must equal w's first");
  const Shape features(w.begin() + 1, w.end());
  if (has_bias)
    require(inputs[2].shape == features, op, inputs,
            "the bias must have w's shape without the first dimension");
  return {{real, join(first(x, x.size() - 1), features)}};
}

std::vector<TensorType> infer_linear_input_grad(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const Shape& dy = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  require(
      !w.empty() && dy.size() + 1 >= w.size() && std::equal(w.rbegin(), w.rend() - 1, dy.rbegin()),
      op, inputs, "dy's last dimensions must be w's without the first");
  return {{real, join(first(dy, dy.size() + 1 - w.size()), first(w, 1))}};
}

std::vector<TensorType> infer_linear_weight_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const Shape& x = inputs[0].shape;
  const Shape& dy = inputs[1].shape;
  const std::size_t tokens = x.empty() ? 0 : x.size() - 1;
  require(!x.empty() && dy.size() >= tokens && std::equal(x.begin(), x.end() - 1, dy.begin()), op,
          inputs, "x and dy must have the same token dimensions");
  return {{DType::kF32, join(from(x, tokens), from(dy, tokens))}};
}

/// Returns 2 (multiply and add) times the elements of x times the features of w. All three products
/// have the same cost.
double linear_flops(const Op&, std::span<const TensorType> inputs) {
  const double features = inputs[1].elements() / static_cast<double>(inputs[1].shape[0]);
  return 2.0 * inputs[0].elements() * features;
}
double linear_input_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return 2.0 * inputs[0].elements() * inputs[1].shape[0];
}
double linear_weight_grad_flops(const Op&, std::span<const TensorType> inputs) {
  return 2.0 * inputs[1].elements() * inputs[0].shape.back();
}

FactorSignature linear_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  auto f = linear_factors(first(x, x.size() - 1), w[0], from(w, 1), FactorKind::kParallel,
                          FactorKind::kReduction, FactorKind::kParallel);
  FactorSignature signature{
      f.factors, {f.token_k, f.k_features}, {f.token_features}, {}, {{0}, {1}}};
  if (inputs.size() == 3) {
    signature.inputs.push_back(f.features);
    signature.single_device_inputs = {2};
  }
  return signature;
}

FactorSignature linear_input_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& dy = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  auto f = linear_factors(first(dy, dy.size() + 1 - w.size()), w[0], from(w, 1),
                          FactorKind::kParallel, FactorKind::kParallel, FactorKind::kReduction);
  return {f.factors, {f.token_features, f.k_features}, {f.token_k}, {}, {{0}, {1}}};
}

FactorSignature linear_weight_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& x = inputs[0].shape;
  const std::size_t tokens = x.size() - 1;
  auto f = linear_factors(first(x, tokens), x[tokens], from(inputs[1].shape, tokens),
                          FactorKind::kReduction, FactorKind::kParallel, FactorKind::kParallel);
  return {f.factors, {f.token_k, f.token_features}, {f.k_features}, {}, {{0}, {1}}};
}

void differentiate_linear(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const ValueId dy = *rule.output_gradient();
  if (rule.needs_gradient(0)) {
    rule.contribute(
        0, rule.emit({OpKind::kLinearInputGrad, {}}, {dy, inputs[1]}, Pass::kInputGrad)[0]);
  }
  if (rule.needs_gradient(1)) {
    rule.contribute(
        1, rule.emit({OpKind::kLinearWeightGrad, {}}, {inputs[0], dy}, rule.pass_of(1))[0]);
  }
  if (inputs.size() == 3 && rule.needs_gradient(2)) {
    const auto tokens = std::ssize(rule.type(inputs[0]).shape) - 1;
    rule.contribute(
        2, rule.emit({OpKind::kSumLeading, {{"dimensions", tokens}}}, {dy}, rule.pass_of(2))[0]);
  }
}

/// Differentiates linear_input_grad as a forward op, which multiplies by the transpose: y[t, k] =
/// sum_n x[t, n] w[k, n].
void differentiate_linear_input_grad(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const ValueId dy = *rule.output_gradient();
  if (rule.needs_gradient(0))
    rule.contribute(0, rule.emit({OpKind::kLinear, {}}, {dy, inputs[1]}, Pass::kInputGrad)[0]);
  if (rule.needs_gradient(1)) {
    rule.contribute(
        1, rule.emit({OpKind::kLinearWeightGrad, {}}, {dy, inputs[0]}, rule.pass_of(1))[0]);
  }
}

}  // namespace

ValueId GraphBuilder::linear(ValueId x, ValueId w, std::optional<ValueId> bias) {
  std::vector<ValueId> inputs{x, w};
  if (bias) inputs.push_back(*bias);
  return append({OpKind::kLinear, {}}, std::move(inputs));
}

ValueId GraphBuilder::linear_transposed(ValueId x, ValueId w) {
  return append({OpKind::kLinearInputGrad, {}}, {x, w});
}

const OpDefinition kLinearDefinition{infer_linear, linear_flops, linear_signature,
                                     differentiate_linear};
const OpDefinition kLinearInputGradDefinition{infer_linear_input_grad, linear_input_grad_flops,
                                              linear_input_grad_signature,
                                              differentiate_linear_input_grad};
const OpDefinition kLinearWeightGradDefinition{infer_linear_weight_grad, linear_weight_grad_flops,
                                               linear_weight_grad_signature, nullptr};

}  // namespace weft
