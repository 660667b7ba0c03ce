// add_channels(x[B, ..., C], t[B, C]) = x + t, with the same t at all positions of a sample. Used
// to add a time embedding.
//
// sum_positions(x[B, ..., C]) -> [B, C] sums over positions, in the element type of x, as t is an
// activation. It is the gradient of add_channels by t.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_add_channels(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const Shape& x = inputs[0].shape;
  require(x.size() >= 2 && inputs[1].shape == Shape{x.front(), x.back()}, op, inputs,
          "x must have the shape [batch, ..., channels] and t [batch, channels]");
  return {inputs[0]};
}

std::vector<TensorType> infer_sum_positions(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal});
  const Shape& x = inputs[0].shape;
  require(x.size() >= 2, op, inputs, "x must have the shape [batch, ..., channels]");
  return {{real, {x.front(), x.back()}}};
}

FactorSignature positions_signature(const Op& op, std::span<const TensorType> inputs) {
  const bool sum = op.kind == OpKind::kSumPositions;
  const Shape& x = inputs[0].shape;
  const std::vector<int> all = factor_range(0, x.size()), ends{0, static_cast<int>(x.size()) - 1};
  FactorSignature signature;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool position = d > 0 && d + 1 < x.size();
    signature.factors.push_back(
        {sum && position ? FactorKind::kReduction : FactorKind::kParallel, x[d]});
  }
  signature.inputs = {all};
  if (!sum) signature.inputs.push_back(ends);
  signature.outputs = {sum ? ends : all};
  signature.linear_in = {factor_range(0, inputs.size())};
  return signature;
}

void differentiate_add_channels(GradientRule& rule) {
  const ValueId dy = *rule.output_gradient();
  if (rule.needs_gradient(0)) rule.contribute(0, dy);
  if (rule.needs_gradient(1))
    rule.contribute(1, rule.emit({OpKind::kSumPositions, {}}, {dy}, rule.pass_of(1))[0]);
}

}  // namespace

ValueId GraphBuilder::add_channels(ValueId x, ValueId t) {
  return append({OpKind::kAddChannels, {}}, {x, t});
}

const OpDefinition kAddChannelsDefinition{infer_add_channels, flops_per_element<1>,
                                          positions_signature, differentiate_add_channels, 0};
const OpDefinition kSumPositionsDefinition{infer_sum_positions, flops_per_element<1>,
                                           positions_signature, nullptr};

}  // namespace weft
