// Fused gradients of layer norm, for devices that compute them in one pass over x and dy.
// core/ops/fusion creates them in a list of ops about to run. They have no gradient rules.
//
// layer_norm_grad(x, gamma, dy; epsilon)              -> dx, dgamma f32, dbeta f32
// layer_norm_input_grad_add(x, gamma, dy, a; epsilon) -> a + dx
// layer_norm_grad_add(x, gamma, dy, a; epsilon)       -> a + dx, dgamma f32, dbeta f32
//
// dx is layer_norm_input_grad(x, gamma, dy), the others are layer_norm_weight_grad(x, dy). a is the
// gradient of another use of x; a + dx is rounded once.
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

TensorType infer_dx(const Op& op, std::span<const TensorType> inputs) {
  return infer_types({OpKind::kLayerNormInputGrad, op.attributes}, inputs.first(3)).front();
}

std::vector<TensorType> infer_layer_norm_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  const TensorType dx = infer_dx(op, inputs), row{DType::kF32, {dx.shape.back()}};
  return {dx, row, row};
}

std::vector<TensorType> infer_layer_norm_input_grad_add(const Op& op,
                                                        std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal, Element::kReal});
  const TensorType dx = infer_dx(op, inputs);
  require(inputs[3] == dx, op, inputs, "what is added must have x's shape");
  return {dx};
}

std::vector<TensorType> infer_layer_norm_grad_add(const Op& op,
                                                  std::span<const TensorType> inputs) {
  const TensorType dx = infer_layer_norm_input_grad_add(op, inputs).front();
  const TensorType row{DType::kF32, {dx.shape.back()}};
  return {dx, row, row};
}

double input_grad_flops(const Op& op, std::span<const TensorType> inputs) {
  return cost({OpKind::kLayerNormInputGrad, op.attributes}, inputs.first(3)).flops;
}
double layer_norm_grad_flops(const Op& op, std::span<const TensorType> inputs) {
  const TensorType both[] = {inputs[0], inputs[2]};
  return input_grad_flops(op, inputs) +
         cost({OpKind::kLayerNormWeightGrad, op.attributes}, both).flops;
}
double layer_norm_input_grad_add_flops(const Op& op, std::span<const TensorType> inputs) {
  return input_grad_flops(op, inputs) + inputs[3].elements();
}
double layer_norm_grad_add_flops(const Op& op, std::span<const TensorType> inputs) {
  return layer_norm_grad_flops(op, inputs) + inputs[3].elements();
}

FactorSignature layer_norm_input_grad_add_signature(const Op& op,
                                                    std::span<const TensorType> inputs) {
  FactorSignature signature =
      factor_signature({OpKind::kLayerNormInputGrad, op.attributes}, inputs.first(3));
  signature.inputs.push_back(signature.inputs[2]);
  signature.linear_in = {{2, 3}};
  return signature;
}

/// Forbids all splits: rows are parallel in dx, but a reduction in dgamma and dbeta.
FactorSignature layer_norm_grad_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& x = inputs[0].shape;
  const auto all = factor_range(0, x.size()), row = factor_range(x.size() - 1, 1);
  FactorSignature signature{{}, {all, row, all}, {all, row, row}, {}, {}};
  for (const std::int64_t size : x) signature.factors.push_back({FactorKind::kWhole, size});
  if (inputs.size() == 4) signature.inputs.push_back(all);
  return signature;
}

}  // namespace

const OpDefinition kLayerNormGradDefinition{infer_layer_norm_grad, layer_norm_grad_flops,
                                            layer_norm_grad_signature, nullptr, 2};
const OpDefinition kLayerNormInputGradAddDefinition{
    infer_layer_norm_input_grad_add, layer_norm_input_grad_add_flops,
    layer_norm_input_grad_add_signature, nullptr, 2};
const OpDefinition kLayerNormGradAddDefinition{infer_layer_norm_grad_add, layer_norm_grad_add_flops,
                                               layer_norm_grad_signature, nullptr, 2};

}  // namespace weft
