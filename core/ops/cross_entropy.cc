// cross_entropy(logits[..., V], targets i32[...], weights f32[...]?; scale) -> f32 scalar:
//   scale * sum over t of weights[t] * (logsumexp(logits[t]) - logits[t, targets[t]])
// Weights default to 1. Summed in double in index order. For the mean over a global batch pass
// scale = 1 / tokens of the whole step; then losses and gradients of microbatches and of
// data-parallel shards can simply be added.
// cross_entropy_grad(logits, targets, weights?; scale) -> dlogits
//   = scale * weights * (softmax(logits) - onehot(targets)), in the logits' element type.
// cross_entropy_with_grad(logits, targets, weights?; scale) -> dlogits, loss: both in one op, which
//   core/ops/fusion creates.
// The loss ends the graph, so its own gradient is 1. Targets and weights have no gradient.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

void require_logits(const Op& op, std::span<const TensorType> inputs) {
  if (inputs.size() == 3) {
    require_inputs(op, inputs, {Element::kReal, Element::kId, Element::kF32});
    require(inputs[2].shape == inputs[1].shape, op, inputs,
            "weights must have the shape of the targets");
  } else {
    require_inputs(op, inputs, {Element::kReal, Element::kId});
  }
  const Shape& logits = inputs[0].shape;
  require(!logits.empty() && inputs[1].shape == Shape(logits.begin(), logits.end() - 1), op, inputs,
          "targets must have the shape of the logits without the last dimension");
}

std::vector<TensorType> infer_cross_entropy(const Op& op, std::span<const TensorType> inputs) {
  require_logits(op, inputs);
  return {{DType::kF32, {}}};
}

std::vector<TensorType> infer_cross_entropy_grad(const Op& op, std::span<const TensorType> inputs) {
  require_logits(op, inputs);
  return {inputs[0]};
}

std::vector<TensorType> infer_cross_entropy_with_grad(const Op& op,
                                                      std::span<const TensorType> inputs) {
  require_logits(op, inputs);
  return {inputs[0], {DType::kF32, {}}};
}

FactorSignature cross_entropy_signature(const Op& op, std::span<const TensorType> inputs) {
  const Shape& logits = inputs[0].shape;
  const std::size_t tokens = logits.size() - 1;
  const bool forward = op.kind == OpKind::kCrossEntropy;
  FactorSignature signature;
  for (std::size_t d = 0; d < tokens; ++d) {
    signature.factors.push_back(
        {forward ? FactorKind::kReduction : FactorKind::kParallel, logits[d]});
  }
  signature.factors.push_back({FactorKind::kWhole, logits.back()});
  signature.inputs.assign(inputs.size(), factor_range(0, tokens));
  signature.inputs[0] = factor_range(0, tokens + 1);
  signature.outputs = {forward ? std::vector<int>{} : factor_range(0, tokens + 1)};
  return signature;
}

/// Forbids all splits: tokens are parallel in dlogits, but a reduction in the loss.
FactorSignature cross_entropy_with_grad_signature(const Op& op,
                                                  std::span<const TensorType> inputs) {
  FactorSignature signature = cross_entropy_signature(op, inputs);
  for (Factor& factor : signature.factors) factor.kind = FactorKind::kWhole;
  signature.outputs.push_back({});
  return signature;
}

void differentiate_cross_entropy(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  if (rule.output_gradient()) {
    throw_error(
        ErrorCode::kInvalidArgument,
        "cross_entropy can only be the loss itself: something was computed from its result");
  }
  if (inputs.size() == 3 && rule.needs_gradient(2)) {
    throw_error(ErrorCode::kInvalidArgument,
                "cross_entropy: the weights must not depend on parameters");
  }
  if (!rule.needs_gradient(0)) return;
  const Op op{OpKind::kCrossEntropyGrad, {{"scale", rule.node().op.real("scale")}}};
  rule.contribute(0, rule.emit(op, inputs, Pass::kInputGrad)[0]);
}

}  // namespace

ValueId GraphBuilder::cross_entropy(ValueId logits, ValueId targets, double scale,
                                    std::optional<ValueId> weights) {
  std::vector<ValueId> inputs{logits, targets};
  if (weights) inputs.push_back(*weights);
  return append({OpKind::kCrossEntropy, {{"scale", scale}}}, std::move(inputs));
}

const OpDefinition kCrossEntropyDefinition{infer_cross_entropy, flops_per_element<4>,
                                           cross_entropy_signature, differentiate_cross_entropy};
const OpDefinition kCrossEntropyGradDefinition{infer_cross_entropy_grad, flops_per_element<6>,
                                               cross_entropy_signature, nullptr, 0};
const OpDefinition kCrossEntropyWithGradDefinition{infer_cross_entropy_with_grad,
                                                   flops_per_element<10>,
                                                   cross_entropy_with_grad_signature, nullptr, 0};

}  // namespace weft
