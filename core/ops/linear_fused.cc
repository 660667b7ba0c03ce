// Fused ops: a matrix product and a subsequent op, for devices that apply the second to the product
// before writing it (the epilogues of cuBLASLt). core/ops/fusion creates them in a list of ops
// about to run. They have no gradient rules, and their signatures forbid splits that are correct
// for the separate ops only.
//
// linear_gelu(x, w, bias; keep)     -> gelu(h), and h if keep is 1; h = linear(x, w, bias)
// linear_add(x, w, a, bias)         -> a + linear(x, w, bias); the bias is optional, a has the
//                                      product's shape
// linear_input_grad_gelu(dy, w, h)  -> gelu_grad(h, linear_input_grad(dy, w))
// linear_weight_grad_sum(x, dy)     -> linear_weight_grad(x, dy), sum_leading(dy) over all
//                                      dimensions of x except the last; f32
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/linear_factors.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

/// Returns the first output type of one of the two ops that a fused op replaces.
TensorType infer_part(const Op& part, const std::vector<TensorType>& inputs) {
  return infer_types(part, inputs).front();
}

std::vector<TensorType> infer_linear_gelu(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  const TensorType y = infer_part({OpKind::kLinear, {}}, {inputs.begin(), inputs.end()});
  if (op.integer("keep") != 0) return {y, y};
  return {y};
}

std::vector<TensorType> infer_linear_add(const Op& op, std::span<const TensorType> inputs) {
  std::vector<TensorType> product{inputs.begin(), inputs.end()};
  if (inputs.size() == 4) {
    require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal, Element::kReal});
  } else {
    require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  }
  product.erase(product.begin() + 2);
  const TensorType y = infer_part({OpKind::kLinear, {}}, product);
  require(inputs[2] == y, op, inputs, "what is added must have the product's shape");
  return {y};
}

std::vector<TensorType> infer_linear_input_grad_gelu(const Op& op,
                                                     std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal});
  const TensorType dx = infer_part({OpKind::kLinearInputGrad, {}}, {inputs[0], inputs[1]});
  require(inputs[2] == dx, op, inputs, "gelu's input must have the shape of the product");
  return {dx};
}

std::vector<TensorType> infer_linear_weight_grad_sum(const Op& op,
                                                     std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const TensorType dw = infer_part({OpKind::kLinearWeightGrad, {}}, {inputs[0], inputs[1]});
  return {dw, {DType::kF32, Shape(dw.shape.begin() + 1, dw.shape.end())}};
}

double product_flops(OpKind kind, std::span<const TensorType> inputs) {
  return cost({kind, {}}, inputs.first(2)).flops;
}

double linear_gelu_flops(const Op&, std::span<const TensorType> inputs) {
  const TensorType h = infer_part({OpKind::kLinear, {}}, {inputs[0], inputs[1]});
  return product_flops(OpKind::kLinear, inputs) + cost({OpKind::kGelu, {}}, {&h, 1}).flops;
}
double linear_add_flops(const Op&, std::span<const TensorType> inputs) {
  return product_flops(OpKind::kLinear, inputs) + inputs[2].elements();
}
double linear_input_grad_gelu_flops(const Op&, std::span<const TensorType> inputs) {
  const TensorType both[] = {inputs[2], inputs[2]};
  return product_flops(OpKind::kLinearInputGrad, inputs) +
         cost({OpKind::kGeluGrad, {}}, both).flops;
}
double linear_weight_grad_sum_flops(const Op&, std::span<const TensorType> inputs) {
  return product_flops(OpKind::kLinearWeightGrad, inputs) + inputs[1].elements();
}

LinearFactors forward_factors(std::span<const TensorType> inputs) {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  return linear_factors(std::span(x).first(x.size() - 1), w[0], std::span(w).subspan(1),
                        FactorKind::kParallel, FactorKind::kWhole, FactorKind::kParallel);
}

FactorSignature linear_gelu_signature(const Op& op, std::span<const TensorType> inputs) {
  const LinearFactors f = forward_factors(inputs);
  FactorSignature signature{
      f.factors, {f.token_k, f.k_features, f.features}, {f.token_features}, {}, {}};
  if (op.integer("keep") != 0) signature.outputs.push_back(f.token_features);
  return signature;
}

FactorSignature linear_add_signature(const Op&, std::span<const TensorType> inputs) {
  const LinearFactors f = forward_factors(inputs);
  FactorSignature signature{
      f.factors, {f.token_k, f.k_features, f.token_features}, {f.token_features}, {}, {}};
  if (inputs.size() == 4) signature.inputs.push_back(f.features);
  return signature;
}

FactorSignature linear_input_grad_gelu_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape &dy = inputs[0].shape, &w = inputs[1].shape;
  const LinearFactors f =
      linear_factors(std::span(dy).first(dy.size() + 1 - w.size()), w[0], std::span(w).subspan(1),
                     FactorKind::kParallel, FactorKind::kParallel, FactorKind::kWhole);
  return {f.factors, {f.token_features, f.k_features, f.token_k}, {f.token_k}, {}, {{0}, {1}}};
}

FactorSignature linear_weight_grad_sum_signature(const Op&, std::span<const TensorType> inputs) {
  const Shape& x = inputs[0].shape;
  const std::size_t tokens = x.size() - 1;
  const LinearFactors f = linear_factors(
      std::span(x).first(tokens), x[tokens], std::span(inputs[1].shape).subspan(tokens),
      FactorKind::kReduction, FactorKind::kWhole, FactorKind::kParallel);
  return {f.factors, {f.token_k, f.token_features}, {f.k_features, f.features}, {}, {{1}}};
}

}  // namespace

const OpDefinition kLinearGeluDefinition{infer_linear_gelu, linear_gelu_flops,
                                         linear_gelu_signature, nullptr};
const OpDefinition kLinearAddDefinition{infer_linear_add, linear_add_flops, linear_add_signature,
                                        nullptr};
const OpDefinition kLinearInputGradGeluDefinition{infer_linear_input_grad_gelu,
                                                  linear_input_grad_gelu_flops,
                                                  linear_input_grad_gelu_signature, nullptr};
const OpDefinition kLinearWeightGradSumDefinition{infer_linear_weight_grad_sum,
                                                  linear_weight_grad_sum_flops,
                                                  linear_weight_grad_sum_signature, nullptr};

}  // namespace weft
