// squared_error(x, target f32; scale) -> f32 scalar: scale * sum of (x - target)^2, summed in
// double in a fixed order. For a mean over a global batch pass scale = 1 / elements of the whole
// step.
//
// squared_error_grad(x, target; scale) -> dx = 2 scale (x - target). The loss ends the graph, so
// its own gradient is 1. The target has no gradient.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

void require_target(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kF32});
  require(inputs[0].shape == inputs[1].shape, op, inputs,
          "x and its target must have the same shape");
}

std::vector<TensorType> infer_squared_error(const Op& op, std::span<const TensorType> inputs) {
  require_target(op, inputs);
  return {{DType::kF32, {}}};
}

std::vector<TensorType> infer_squared_error_grad(const Op& op, std::span<const TensorType> inputs) {
  require_target(op, inputs);
  return {inputs[0]};
}

double squared_error_flops(const Op& op, std::span<const TensorType> inputs) {
  return (op.kind == OpKind::kSquaredError ? 3.0 : 2.0) * inputs[0].elements();
}

FactorSignature squared_error_signature(const Op& op, std::span<const TensorType> inputs) {
  const bool forward = op.kind == OpKind::kSquaredError;
  const std::vector<int> all = factor_range(0, inputs[0].shape.size());
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape) {
    signature.factors.push_back({forward ? FactorKind::kReduction : FactorKind::kParallel, size});
  }
  signature.inputs = {all, all};
  signature.outputs = {forward ? std::vector<int>{} : all};
  if (!forward) signature.linear_in = {{0, 1}};
  return signature;
}

void differentiate_squared_error(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  if (rule.needs_gradient(1)) {
    throw_error(ErrorCode::kInvalidArgument,
                "squared_error: the target must not depend on parameters");
  }
  if (!rule.needs_gradient(0)) return;
  const Op op{OpKind::kSquaredErrorGrad, {{"scale", rule.node().op.real("scale")}}};
  rule.contribute(0, rule.emit(op, inputs, Pass::kInputGrad)[0]);
}

}  // namespace

ValueId GraphBuilder::squared_error(ValueId x, ValueId target, double scale) {
  return append({OpKind::kSquaredError, {{"scale", scale}}}, {x, target});
}

const OpDefinition kSquaredErrorDefinition{infer_squared_error, squared_error_flops,
                                           squared_error_signature, differentiate_squared_error};
const OpDefinition kSquaredErrorGradDefinition{infer_squared_error_grad, squared_error_flops,
                                               squared_error_signature, nullptr, 0};

}  // namespace weft
