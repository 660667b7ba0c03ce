// Element-wise functions, and their gradients f_grad(x, dy) = dy * f'(x):
//   gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the tanh form, as in GPT-2
//   sigmoid(x) = 1 / (1 + e^-x)
//   silu(x) = x * sigmoid(x)
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_activation(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal});
  return {inputs[0]};
}

std::vector<TensorType> infer_activation_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require(inputs[0] == inputs[1], op, inputs, "x and dy must have the same shape");
  return {inputs[0]};
}

FactorSignature activation_signature(const Op&, std::span<const TensorType> inputs) {
  const std::vector<int> all = factor_range(0, inputs[0].shape.size());
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape)
    signature.factors.push_back({FactorKind::kParallel, size});
  signature.inputs.assign(inputs.size(), all);
  signature.outputs = {all};
  if (inputs.size() == 2) signature.linear_in = {{1}};  // a gradient is linear in dy
  return signature;
}

template <OpKind Grad>
void differentiate_activation(GradientRule& rule) {
  const ValueId x = rule.node().inputs[0];
  if (!rule.needs_gradient(0)) return;
  rule.contribute(0, rule.emit({Grad, {}}, {x, *rule.output_gradient()}, Pass::kInputGrad)[0]);
}

}  // namespace

ValueId GraphBuilder::gelu(ValueId x) { return append({OpKind::kGelu, {}}, {x}); }

ValueId GraphBuilder::silu(ValueId x) { return append({OpKind::kSilu, {}}, {x}); }

ValueId GraphBuilder::sigmoid(ValueId x) { return append({OpKind::kSigmoid, {}}, {x}); }

const OpDefinition kGeluDefinition{infer_activation, flops_per_element<9>, activation_signature,
                                   differentiate_activation<OpKind::kGeluGrad>, 0};
const OpDefinition kGeluGradDefinition{infer_activation_grad, flops_per_element<17>,
                                       activation_signature, nullptr, 1};
const OpDefinition kSiluDefinition{infer_activation, flops_per_element<4>, activation_signature,
                                   differentiate_activation<OpKind::kSiluGrad>, 0};
const OpDefinition kSiluGradDefinition{infer_activation_grad, flops_per_element<8>,
                                       activation_signature, nullptr, 1};
const OpDefinition kSigmoidDefinition{infer_activation, flops_per_element<3>, activation_signature,
                                      differentiate_activation<OpKind::kSigmoidGrad>, 0};
const OpDefinition kSigmoidGradDefinition{infer_activation_grad, flops_per_element<6>,
                                          activation_signature, nullptr, 1};

}  // namespace weft
