// multiply(a, b) = a * b, element-wise, for equal shapes. Its gradients are multiply(dy, b) and
// multiply(dy, a).
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_multiply(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require(inputs[0] == inputs[1], op, inputs, "a and b must have the same shape");
  return {inputs[0]};
}

FactorSignature multiply_signature(const Op&, std::span<const TensorType> inputs) {
  const std::vector<int> all = factor_range(0, inputs[0].shape.size());
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape)
    signature.factors.push_back({FactorKind::kParallel, size});
  signature.inputs = {all, all};
  signature.outputs = {all};
  signature.linear_in = {{0}, {1}};
  return signature;
}

void differentiate_multiply(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const ValueId dy = *rule.output_gradient();
  for (const std::size_t i : {0, 1}) {
    if (!rule.needs_gradient(i)) continue;
    rule.contribute(i, rule.emit({OpKind::kMultiply, {}}, {dy, inputs[1 - i]}, rule.pass_of(i))[0]);
  }
}

}  // namespace

ValueId GraphBuilder::multiply(ValueId a, ValueId b) {
  return append({OpKind::kMultiply, {}}, {a, b});
}

const OpDefinition kMultiplyDefinition{infer_multiply, flops_per_element<1>, multiply_signature,
                                       differentiate_multiply, 0};

}  // namespace weft
