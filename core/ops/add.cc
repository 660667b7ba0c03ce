// add(a, b) = a + b, where b has the shape of a or a suffix of it: b is broadcast over the leading
// dimensions of a.
//
// sum_leading(x; dimensions=n) -> f32 sums over the first n dimensions. It is the gradient of this
// broadcast and of a bias.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_add(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  require(b.size() <= a.size() && std::equal(b.rbegin(), b.rend(), a.rbegin()), op, inputs,
          "b's shape must be a's or its last dimensions");
  return {inputs[0]};
}

FactorSignature add_signature(const Op&, std::span<const TensorType> inputs) {
  const std::size_t rank = inputs[0].shape.size(), suffix = inputs[1].shape.size();
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape)
    signature.factors.push_back({FactorKind::kParallel, size});
  signature.inputs = {factor_range(0, rank), factor_range(rank - suffix, suffix)};
  signature.outputs = {factor_range(0, rank)};
  signature.linear_in = {{0, 1}};
  return signature;
}

void differentiate_add(GradientRule& rule) {
  const ValueId gradient = *rule.output_gradient();
  const Shape& a = rule.type(rule.node().inputs[0]).shape;
  const Shape& b = rule.type(rule.node().inputs[1]).shape;
  if (rule.needs_gradient(0)) rule.contribute(0, gradient);
  if (!rule.needs_gradient(1)) return;
  if (a.size() == b.size()) {
    rule.contribute(1, gradient);
    return;
  }
  const std::int64_t leading = a.size() - b.size();
  rule.contribute(1, rule.emit({OpKind::kSumLeading, {{"dimensions", leading}}}, {gradient},
                               rule.pass_of(1))[0]);
}

std::vector<TensorType> infer_sum_leading(const Op& op, std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal});
  const std::int64_t dimensions = op.integer("dimensions");
  const Shape& x = inputs[0].shape;
  require(dimensions >= 0 && dimensions <= std::ssize(x), op, inputs,
          "cannot sum {} dimensions away", dimensions);
  return {{DType::kF32, Shape(x.begin() + dimensions, x.end())}};
}

FactorSignature sum_leading_signature(const Op& op, std::span<const TensorType> inputs) {
  const std::size_t summed = op.integer("dimensions");
  const Shape& x = inputs[0].shape;
  FactorSignature signature;
  for (std::size_t d = 0; d < x.size(); ++d) {
    signature.factors.push_back(
        {d < summed ? FactorKind::kReduction : FactorKind::kParallel, x[d]});
  }
  signature.inputs = {factor_range(0, x.size())};
  signature.outputs = {factor_range(summed, x.size() - summed)};
  signature.linear_in = {{0}};
  return signature;
}

}  // namespace

ValueId GraphBuilder::add(ValueId a, ValueId b) { return append({OpKind::kAdd, {}}, {a, b}); }

const OpDefinition kAddDefinition{infer_add, flops_per_element<1>, add_signature, differentiate_add,
                                  0};
const OpDefinition kSumLeadingDefinition{infer_sum_leading, flops_per_element<1>,
                                         sum_leading_signature, nullptr};

}  // namespace weft
