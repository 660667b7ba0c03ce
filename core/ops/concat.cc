// concat(a[..., A], b[..., B], ...) -> y[..., A + B + ...]: joined along the last dimension, which
// cannot be split, as a device would need parts of several inputs.
//
// slice(x; dim, begin, size) -> x[..., begin : begin + size, ...]. Along the last dimension it is
// the gradient of concat by each input.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

std::vector<TensorType> infer_concat(const Op& op, std::span<const TensorType> inputs) {
  require(inputs.size() >= 2, op, inputs, "expected at least 2 inputs");
  const DType real = require_inputs(op, inputs.first(1), {Element::kReal});
  Shape joined = inputs[0].shape;
  for (const TensorType& input : inputs.subspan(1)) {
    const Shape& next = input.shape;
    require(input.dtype == real, op, inputs, "inputs must have one element type");
    require(!joined.empty() && joined.size() == next.size() &&
                std::equal(joined.begin(), joined.end() - 1, next.begin()),
            op, inputs, "inputs must agree in all dimensions but the last");
    joined.back() += next.back();
  }
  return {{real, joined}};
}

std::vector<TensorType> infer_slice(const Op& op, std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal});
  Shape x = inputs[0].shape;
  const std::int64_t dim = op.integer("dim"), begin = op.integer("begin"),
                     size = op.integer("size");
  require(dim >= 0 && dim < std::ssize(x), op, inputs, "there is no dimension {}", dim);
  require(begin >= 0 && size >= 1 && begin + size <= x[dim], op, inputs,
          "dimension {} has no elements {} to {}", dim, begin, begin + size);
  x[dim] = size;
  return {{real, x}};
}

/// Leading dimensions are parallel factors. The last dimension of each input and of the output is a
/// whole factor of its own.
FactorSignature concat_signature(const Op& op, std::span<const TensorType> inputs) {
  FactorSignature signature;
  const std::size_t leading = inputs[0].shape.size() - 1;
  for (std::size_t d = 0; d < leading; ++d)
    signature.factors.push_back({FactorKind::kParallel, inputs[0].shape[d]});
  const auto with_last = [&](std::int64_t size) {
    std::vector<int> dimensions = factor_range(0, leading);
    dimensions.push_back(signature.factors.size());
    signature.factors.push_back({FactorKind::kWhole, size});
    return dimensions;
  };
  for (const TensorType& input : inputs) signature.inputs.push_back(with_last(input.shape.back()));
  signature.outputs = {with_last(infer_types(op, inputs)[0].shape.back())};
  signature.linear_in = {factor_range(0, inputs.size())};
  return signature;
}

/// The sliced dimension is a whole factor in input and output; other dimensions are parallel.
FactorSignature slice_signature(const Op& op, std::span<const TensorType> inputs) {
  FactorSignature signature;
  const Shape& x = inputs[0].shape;
  const std::size_t dim = op.integer("dim");
  for (std::size_t d = 0; d < x.size(); ++d)
    signature.factors.push_back({d == dim ? FactorKind::kWhole : FactorKind::kParallel, x[d]});
  signature.factors.push_back({FactorKind::kWhole, op.integer("size")});
  std::vector<int> dimensions = factor_range(0, x.size());
  signature.inputs = {dimensions};
  dimensions[dim] = x.size();
  signature.outputs = {std::move(dimensions)};
  signature.linear_in = {{0}};
  return signature;
}

void differentiate_concat(GradientRule& rule) {
  std::int64_t begin = 0;
  const std::vector<ValueId> inputs = rule.node().inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t size = rule.type(inputs[i]).shape.back();
    if (rule.needs_gradient(i)) {
      const std::int64_t dim = std::ssize(rule.type(inputs[i]).shape) - 1;
      const Op op{OpKind::kSlice, {{"dim", dim}, {"begin", begin}, {"size", size}}};
      rule.contribute(i, rule.emit(op, {*rule.output_gradient()}, rule.pass_of(i))[0]);
    }
    begin += size;
  }
}

}  // namespace

ValueId GraphBuilder::concat(ValueId a, ValueId b) { return append({OpKind::kConcat, {}}, {a, b}); }

const OpDefinition kConcatDefinition{infer_concat, no_flops, concat_signature,
                                     differentiate_concat};
const OpDefinition kSliceDefinition{infer_slice, no_flops, slice_signature, nullptr};

}  // namespace weft
