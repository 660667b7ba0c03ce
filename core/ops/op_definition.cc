#include "core/ops/op_definition.h"

#include "core/base/check.h"
#include "core/ops/internal/definitions.h"

namespace weft {

const OpDefinition& definition(OpKind kind) {
#define WEFT_OP(kind, name) &kind##Definition,
  static constexpr const OpDefinition* kDefinitions[] = {WEFT_OPS(WEFT_OP)};
#undef WEFT_OP
  const auto index = static_cast<std::size_t>(kind);
  WEFT_CHECK(index < kOpKinds, "op kind {}", index);
  return *kDefinitions[index];
}

std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs) {
  return definition(op.kind).infer(op, inputs);
}

Cost cost(const Op& op, std::span<const TensorType> inputs) {
  Cost result{definition(op.kind).flops(op, inputs), 0};
  for (const TensorType& type : inputs) result.bytes += type.bytes();
  for (const TensorType& type : infer_types(op, inputs)) result.bytes += type.bytes();
  return result;
}

FactorSignature factor_signature(const Op& op, std::span<const TensorType> inputs) {
  return definition(op.kind).signature(op, inputs);
}

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  types.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) types.push_back(graph.value(input).type);
  return types;
}

FactorSignature factor_signature(const Graph& graph, const Node& node) {
  return factor_signature(node.op, input_types(graph, node));
}

Cost cost(const Graph& graph, const Node& node) { return cost(node.op, input_types(graph, node)); }

}  // namespace weft
