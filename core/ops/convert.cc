// Conversions: to_bf16(x f32) -> bf16 rounds to nearest, ties to even; to_f32(x bf16) -> f32 is
// exact. Each is the gradient of the other.
//
// A model converts its f32 inputs (pictures). Autodiff converts the gradient of a parameter if the
// op yields bf16.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/flops.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

template <DType From, DType To>
std::vector<TensorType> infer_convert(const Op& op, std::span<const TensorType> inputs) {
  require(inputs.size() == 1, op, inputs, "takes 1 input");
  require(inputs[0].dtype == From, op, inputs, "the input must be {}", to_string(From));
  return {{To, inputs[0].shape}};
}

FactorSignature convert_signature(const Op&, std::span<const TensorType> inputs) {
  const std::vector<int> all = factor_range(0, inputs[0].shape.size());
  FactorSignature signature;
  for (const std::int64_t size : inputs[0].shape)
    signature.factors.push_back({FactorKind::kParallel, size});
  signature.inputs = {all};
  signature.outputs = {all};
  signature.linear_in = {{0}};
  return signature;
}

template <OpKind Back>
void differentiate_convert(GradientRule& rule) {
  if (rule.needs_gradient(0))
    rule.contribute(0, rule.emit({Back, {}}, {*rule.output_gradient()}, rule.pass_of(0))[0]);
}

}  // namespace

ValueId GraphBuilder::convert(ValueId x, DType to) {
  if (x.value() < graph_.values().size() && type(x).dtype == to) return x;
  return append({to == DType::kBF16 ? OpKind::kToBF16 : OpKind::kToF32, {}}, {x});
}

const OpDefinition kToBF16Definition{infer_convert<DType::kF32, DType::kBF16>, no_flops,
                                     convert_signature, differentiate_convert<OpKind::kToF32>};
const OpDefinition kToF32Definition{infer_convert<DType::kBF16, DType::kF32>, no_flops,
                                    convert_signature, differentiate_convert<OpKind::kToBF16>};

}  // namespace weft
