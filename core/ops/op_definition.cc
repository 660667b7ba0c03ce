#include "core/ops/op_definition.h"

#include "core/base/check.h"
#include "core/ops/internal/definitions.h"

namespace weft {

const OpDefinition& definition(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd: return kAddDefinition;
    case OpKind::kSumLeading: return kSumLeadingDefinition;
    case OpKind::kLinear: return kLinearDefinition;
    case OpKind::kLinearInputGrad: return kLinearInputGradDefinition;
    case OpKind::kLinearWeightGrad: return kLinearWeightGradDefinition;
    case OpKind::kGelu: return kGeluDefinition;
    case OpKind::kGeluGrad: return kGeluGradDefinition;
    case OpKind::kLayerNorm: return kLayerNormDefinition;
    case OpKind::kLayerNormInputGrad: return kLayerNormInputGradDefinition;
    case OpKind::kLayerNormWeightGrad: return kLayerNormWeightGradDefinition;
    case OpKind::kAttention: return kAttentionDefinition;
    case OpKind::kAttentionGrad: return kAttentionGradDefinition;
    case OpKind::kEmbedding: return kEmbeddingDefinition;
    case OpKind::kEmbeddingGrad: return kEmbeddingGradDefinition;
    case OpKind::kEmulatedBlock: return kEmulatedBlockDefinition;
    case OpKind::kEmulatedInputGrad: return kEmulatedInputGradDefinition;
    case OpKind::kEmulatedWeightGrad: return kEmulatedWeightGradDefinition;
    case OpKind::kCrossEntropy: return kCrossEntropyDefinition;
    case OpKind::kCrossEntropyGrad: return kCrossEntropyGradDefinition;
    case OpKind::kSilu: return kSiluDefinition;
    case OpKind::kSiluGrad: return kSiluGradDefinition;
    case OpKind::kSigmoid: return kSigmoidDefinition;
    case OpKind::kSigmoidGrad: return kSigmoidGradDefinition;
    case OpKind::kMultiply: return kMultiplyDefinition;
    case OpKind::kConvolution: return kConvolutionDefinition;
    case OpKind::kConvolutionInputGrad: return kConvolutionInputGradDefinition;
    case OpKind::kConvolutionWeightGrad: return kConvolutionWeightGradDefinition;
    case OpKind::kGroupNorm: return kGroupNormDefinition;
    case OpKind::kGroupNormInputGrad: return kGroupNormInputGradDefinition;
    case OpKind::kGroupNormWeightGrad: return kGroupNormWeightGradDefinition;
    case OpKind::kUpsample: return kUpsampleDefinition;
    case OpKind::kUpsampleGrad: return kUpsampleGradDefinition;
    case OpKind::kConcat: return kConcatDefinition;
    case OpKind::kSlice: return kSliceDefinition;
    case OpKind::kAddChannels: return kAddChannelsDefinition;
    case OpKind::kSumPositions: return kSumPositionsDefinition;
    case OpKind::kCrossAttention: return kCrossAttentionDefinition;
    case OpKind::kCrossAttentionGrad: return kCrossAttentionGradDefinition;
    case OpKind::kSquaredError: return kSquaredErrorDefinition;
    case OpKind::kSquaredErrorGrad: return kSquaredErrorGradDefinition;
    case OpKind::kToBF16: return kToBF16Definition;
    case OpKind::kToF32: return kToF32Definition;
    case OpKind::kLinearGelu: return kLinearGeluDefinition;
    case OpKind::kLinearAdd: return kLinearAddDefinition;
    case OpKind::kLinearInputGradGelu: return kLinearInputGradGeluDefinition;
    case OpKind::kLinearWeightGradSum: return kLinearWeightGradSumDefinition;
  }
  WEFT_CHECK(false, "op kind {}", static_cast<int>(kind));
}

std::vector<TensorType> infer_types(const Op& op, std::span<const TensorType> inputs) {
  return definition(op.kind).infer(op, inputs);
}

Cost cost(const Op& op, std::span<const TensorType> inputs) {
  Cost result{definition(op.kind).flops(op, inputs), 0};
  for (const TensorType& type : inputs) result.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : infer_types(op, inputs))
    result.bytes += static_cast<double>(type.bytes());
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
