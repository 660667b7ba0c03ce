// gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))): the tanh form, as in GPT-2.
// gelu_grad(x, dy) = dy * gelu'(x).
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_gelu(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {DType::kF32});
  return {inputs[0]};
}

std::vector<TensorType> infer_gelu_grad(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {DType::kF32, DType::kF32});
  require(inputs[0] == inputs[1], op, inputs, "x and dy must have the same shape");
  return {inputs[0]};
}

double gelu_flops(const Op&, std::span<const TensorType> inputs) { return 9.0 * static_cast<double>(inputs[0].elements()); }
double gelu_grad_flops(const Op&, std::span<const TensorType> inputs) { return 17.0 * static_cast<double>(inputs[0].elements()); }

FactorSignature elementwise_signature(const Op& op, std::span<const TensorType> inputs) {
  const std::vector<int> all = factor_range(0, inputs[0].shape.size());
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape) signature.factors.push_back({FactorKind::kParallel, size});
  signature.inputs.assign(inputs.size(), all);
  signature.outputs = {all};
  if (op.kind == OpKind::kGeluGrad) signature.linear_in = {{1}};
  return signature;
}

void differentiate_gelu(GradientRule& rule) {
  const ValueId x = rule.node().inputs[0];
  if (!rule.needs_gradient(0)) return;
  rule.contribute(0, rule.emit({OpKind::kGeluGrad, {}}, {x, *rule.output_gradient()}, Pass::kInputGrad)[0]);
}

}  // namespace

const OpDefinition kGeluDefinition{infer_gelu, gelu_flops, elementwise_signature, differentiate_gelu, 0};
const OpDefinition kGeluGradDefinition{infer_gelu_grad, gelu_grad_flops, elementwise_signature, nullptr, 1};

}  // namespace weft
