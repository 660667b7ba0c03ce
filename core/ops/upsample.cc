// upsample(x[B,H,W,C]; factor) -> y[B, factor H, factor W, C] repeats each pixel (nearest
// neighbour):
//   y[b,i,j,c] = x[b, i / factor, j / factor, c]
// upsample_grad(dy; factor) -> dx sums over each square.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::int64_t checked_factor(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal});
  require(inputs[0].shape.size() == 4, op, inputs,
          "the input must have the shape [batch, height, width, channels]");
  require(op.integer("factor") >= 1, op, inputs, "the factor {} is not positive",
          op.integer("factor"));
  return op.integer("factor");
}

std::vector<TensorType> infer_upsample(const Op& op, std::span<const TensorType> inputs) {
  const std::int64_t factor = checked_factor(op, inputs);
  const Shape& x = inputs[0].shape;
  return {{inputs[0].dtype, {x[0], factor * x[1], factor * x[2], x[3]}}};
}

std::vector<TensorType> infer_upsample_grad(const Op& op, std::span<const TensorType> inputs) {
  const std::int64_t factor = checked_factor(op, inputs);
  const Shape& dy = inputs[0].shape;
  require(dy[1] % factor == 0 && dy[2] % factor == 0, op, inputs,
          "height and width must be multiples of {}", factor);
  return {{inputs[0].dtype, {dy[0], dy[1] / factor, dy[2] / factor, dy[3]}}};
}

double upsample_flops(const Op& op, std::span<const TensorType> inputs) {
  // The gradient adds each element of the larger tensor; forward only copies.
  return op.kind == OpKind::kUpsample ? 0.0 : inputs[0].elements();
}

FactorSignature upsample_signature(const Op& op, std::span<const TensorType> inputs) {
  enum : int { kBatch, kHeight, kWidth, kChannels, kOutHeight, kOutWidth };
  const Shape& x = inputs[0].shape;
  const Shape y = infer_types(op, inputs)[0].shape;
  FactorSignature signature;
  signature.factors = {{FactorKind::kParallel, x[0]}, {FactorKind::kWhole, x[1]},
                       {FactorKind::kWhole, x[2]},    {FactorKind::kParallel, x[3]},
                       {FactorKind::kWhole, y[1]},    {FactorKind::kWhole, y[2]}};
  signature.inputs = {{kBatch, kHeight, kWidth, kChannels}};
  signature.outputs = {{kBatch, kOutHeight, kOutWidth, kChannels}};
  signature.linear_in = {{0}};
  return signature;
}

void differentiate_upsample(GradientRule& rule) {
  if (!rule.needs_gradient(0)) return;
  const Op op{OpKind::kUpsampleGrad, {{"factor", rule.node().op.integer("factor")}}};
  rule.contribute(0, rule.emit(op, {*rule.output_gradient()}, Pass::kInputGrad)[0]);
}

}  // namespace

ValueId GraphBuilder::upsample(ValueId x, std::int64_t factor) {
  return append({OpKind::kUpsample, {{"factor", factor}}}, {x});
}

const OpDefinition kUpsampleDefinition{infer_upsample, upsample_flops, upsample_signature,
                                       differentiate_upsample};
const OpDefinition kUpsampleGradDefinition{infer_upsample_grad, upsample_flops, upsample_signature,
                                           nullptr};

}  // namespace weft
