#include "core/graph/op.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd: return "add";
    case OpKind::kSumLeading: return "sum_leading";
    case OpKind::kLinear: return "linear";
    case OpKind::kLinearInputGrad: return "linear_input_grad";
    case OpKind::kLinearWeightGrad: return "linear_weight_grad";
    case OpKind::kGelu: return "gelu";
    case OpKind::kGeluGrad: return "gelu_grad";
    case OpKind::kLayerNorm: return "layer_norm";
    case OpKind::kLayerNormInputGrad: return "layer_norm_input_grad";
    case OpKind::kLayerNormWeightGrad: return "layer_norm_weight_grad";
    case OpKind::kAttention: return "attention";
    case OpKind::kAttentionGrad: return "attention_grad";
    case OpKind::kEmbedding: return "embedding";
    case OpKind::kEmbeddingGrad: return "embedding_grad";
    case OpKind::kEmulatedBlock: return "emulated_block";
    case OpKind::kEmulatedInputGrad: return "emulated_input_grad";
    case OpKind::kEmulatedWeightGrad: return "emulated_weight_grad";
    case OpKind::kCrossEntropy: return "cross_entropy";
    case OpKind::kCrossEntropyGrad: return "cross_entropy_grad";
    case OpKind::kSilu: return "silu";
    case OpKind::kSiluGrad: return "silu_grad";
    case OpKind::kSigmoid: return "sigmoid";
    case OpKind::kSigmoidGrad: return "sigmoid_grad";
    case OpKind::kMultiply: return "multiply";
    case OpKind::kConvolution: return "convolution";
    case OpKind::kConvolutionInputGrad: return "convolution_input_grad";
    case OpKind::kConvolutionWeightGrad: return "convolution_weight_grad";
    case OpKind::kGroupNorm: return "group_norm";
    case OpKind::kGroupNormInputGrad: return "group_norm_input_grad";
    case OpKind::kGroupNormWeightGrad: return "group_norm_weight_grad";
    case OpKind::kUpsample: return "upsample";
    case OpKind::kUpsampleGrad: return "upsample_grad";
    case OpKind::kConcat: return "concat";
    case OpKind::kSlice: return "slice";
    case OpKind::kAddChannels: return "add_channels";
    case OpKind::kSumPositions: return "sum_positions";
    case OpKind::kCrossAttention: return "cross_attention";
    case OpKind::kCrossAttentionGrad: return "cross_attention_grad";
    case OpKind::kSquaredError: return "squared_error";
    case OpKind::kSquaredErrorGrad: return "squared_error_grad";
    case OpKind::kToBF16: return "to_bf16";
    case OpKind::kToF32: return "to_f32";
    case OpKind::kLinearGelu: return "linear_gelu";
    case OpKind::kLinearAdd: return "linear_add";
    case OpKind::kLinearInputGradGelu: return "linear_input_grad_gelu";
    case OpKind::kLinearWeightGradSum: return "linear_weight_grad_sum";
  }
  return "?";
}

namespace {
template <typename T>
T find_attribute(const Op& op, std::string_view name) {
  for (const auto& [key, value] : op.attributes) {
    if (key != name) continue;
    if (const T* found = std::get_if<T>(&value)) return *found;
  }
  throw_error(ErrorCode::kInternal, "op {} has no attribute '{}' of the type asked for",
              to_string(op.kind), name);
}
}  // namespace

std::int64_t Op::integer(std::string_view name) const {
  return find_attribute<std::int64_t>(*this, name);
}
double Op::real(std::string_view name) const { return find_attribute<double>(*this, name); }

std::string to_string(const Op& op) {
  std::string text{to_string(op.kind)};
  for (std::size_t i = 0; i < op.attributes.size(); ++i) {
    const auto& attribute = op.attributes[i];
    text += i == 0 ? "(" : ",";
    text += std::visit([&](auto number) { return fmt::format("{}={}", attribute.first, number); },
                       attribute.second);
  }
  return op.attributes.empty() ? text : text + ")";
}

}  // namespace weft
