#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// The closed set of operators. What each computes, with shapes, stands in its file in core/ops.
enum class OpKind : std::uint8_t {
  kAdd,         ///< a + b; b's shape is a's, or a suffix of it (broadcast over leading dimensions)
  kSumLeading,  ///< sums leading dimensions away: the gradient of a broadcast and of a bias
  kLinear,      ///< x[..., K] * w[K, N...] (+ bias[N...])
  kLinearInputGrad,
  kLinearWeightGrad,
  kGelu,
  kGeluGrad,
  kLayerNorm,
  kLayerNormInputGrad,
  kLayerNormWeightGrad,
  kAttention,  ///< causal multi-head self-attention on a packed qkv[B, S, 3, D]
  kAttentionGrad,
  kEmbedding,  ///< rows of a table
  kEmbeddingGrad,
  kEmulatedBlock,  ///< stands for a part of a model: tensors and seconds, no arithmetic
  kEmulatedInputGrad,
  kEmulatedWeightGrad,
  kCrossEntropy,  ///< scaled sum of token losses
  kCrossEntropyGrad,
  kSilu,
  kSiluGrad,
  kSigmoid,
  kSigmoidGrad,
  kMultiply,     ///< a * b, element by element
  kConvolution,  ///< x[B, H, W, C] with w[KH, KW, C, N] (+ bias[N])
  kConvolutionInputGrad,
  kConvolutionWeightGrad,
  kGroupNorm,
  kGroupNormInputGrad,
  kGroupNormWeightGrad,
  kUpsample,  ///< each pixel becomes a square of equal ones
  kUpsampleGrad,
  kConcat,          ///< along the last dimension
  kSlice,           ///< a range of the last dimension: the gradient of concat
  kAddChannels,     ///< x[B, ..., C] + t[B, C], alike in all positions
  kSumPositions,    ///< x[B, ..., C] -> [B, C]: the gradient of that
  kCrossAttention,  ///< multi-head attention of q to k and v from elsewhere, not causal
  kCrossAttentionGrad,
  kSquaredError,  ///< scaled sum of squared differences
  kSquaredErrorGrad,
  kToBF16,  ///< rounds f32 to bf16
  kToF32,   ///< the other way, exact
  /// gelu of a linear; each of these four stands for two ops (core/ops/fusion.h)
  kLinearGelu,
  kLinearAdd,            ///< a linear and what is added to it
  kLinearInputGradGelu,  ///< linear_input_grad, then gelu_grad
  kLinearWeightGradSum,  ///< linear_weight_grad and the gradient of the bias
};

/// "linear", "layer_norm_input_grad", ...
std::string_view to_string(OpKind kind);

using Attribute = std::variant<std::int64_t, double>;

/// An operator with its attributes. A value.
struct Op {
  OpKind kind = OpKind::kAdd;
  std::vector<std::pair<std::string, Attribute>> attributes;

  /// The attribute's value; throws Error(kInternal) when it is absent or of the other type.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  friend bool operator==(const Op&, const Op&) = default;
  static constexpr auto fields = weft::fields(&Op::kind, &Op::attributes);
};

/// "attention(head_dim=64)".
std::string to_string(const Op& op);

}  // namespace weft

template <>
struct weft::last_enumerator<weft::OpKind> {
  static constexpr auto kValue = weft::OpKind::kLinearWeightGradSum;
};
