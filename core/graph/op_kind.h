#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace weft {

// List of ops. A row is OP(enumerator, "name"). All other properties of an op are found by its
// enumerator: kGroupNormDefinition in core/ops defines its semantics and shapes, and each device
// has a kGroupNormKernel. If one is missing, the linker reports it.
//
// The order determines the encoding of programs in messages: add new rows at the end.
#define WEFT_OPS(OP)                                                                   \
  OP(kAdd, "add")                                                                      \
  OP(kSumLeading, "sum_leading") /* the gradient of a broadcast and of a bias */       \
  OP(kLinear, "linear")                                                                \
  OP(kLinearInputGrad, "linear_input_grad")                                            \
  OP(kLinearWeightGrad, "linear_weight_grad")                                          \
  OP(kGelu, "gelu")                                                                    \
  OP(kGeluGrad, "gelu_grad")                                                           \
  OP(kLayerNorm, "layer_norm")                                                         \
  OP(kLayerNormInputGrad, "layer_norm_input_grad")                                     \
  OP(kLayerNormWeightGrad, "layer_norm_weight_grad")                                   \
  OP(kAttention, "attention") /* causal self-attention */                              \
  OP(kAttentionGrad, "attention_grad")                                                 \
  OP(kEmbedding, "embedding")                                                          \
  OP(kEmbeddingGrad, "embedding_grad")                                                 \
  OP(kEmulatedBlock, "emulated_block") /* part of a model: tensors and seconds */      \
  OP(kEmulatedInputGrad, "emulated_input_grad")                                        \
  OP(kEmulatedWeightGrad, "emulated_weight_grad")                                      \
  OP(kCrossEntropy, "cross_entropy")                                                   \
  OP(kCrossEntropyGrad, "cross_entropy_grad")                                          \
  OP(kSilu, "silu")                                                                    \
  OP(kSiluGrad, "silu_grad")                                                           \
  OP(kSigmoid, "sigmoid")                                                              \
  OP(kSigmoidGrad, "sigmoid_grad")                                                     \
  OP(kMultiply, "multiply")                                                            \
  OP(kConvolution, "convolution")                                                      \
  OP(kConvolutionInputGrad, "convolution_input_grad")                                  \
  OP(kConvolutionWeightGrad, "convolution_weight_grad")                                \
  OP(kGroupNorm, "group_norm")                                                         \
  OP(kGroupNormInputGrad, "group_norm_input_grad")                                     \
  OP(kGroupNormWeightGrad, "group_norm_weight_grad")                                   \
  OP(kUpsample, "upsample")                                                            \
  OP(kUpsampleGrad, "upsample_grad")                                                   \
  OP(kConcat, "concat")                                                                \
  OP(kSlice, "slice") /* the gradient of concat */                                     \
  OP(kAddChannels, "add_channels")                                                     \
  OP(kSumPositions, "sum_positions")     /* the gradient of add_channels */            \
  OP(kCrossAttention, "cross_attention") /* not causal; k and v from another tensor */ \
  OP(kCrossAttentionGrad, "cross_attention_grad")                                      \
  OP(kSquaredError, "squared_error")                                                   \
  OP(kSquaredErrorGrad, "squared_error_grad")                                          \
  OP(kToBF16, "to_bf16")                                                               \
  OP(kToF32, "to_f32")                                                                 \
  /* Fused ops, inserted into lists of ops by core/ops/fusion.h. */                    \
  OP(kLinearGelu, "linear_gelu")                                                       \
  OP(kLinearAdd, "linear_add")                                                         \
  OP(kLinearInputGradGelu, "linear_input_grad_gelu")                                   \
  OP(kLinearWeightGradSum, "linear_weight_grad_sum")                                   \
  /* Parts of ops with a split normalised dimension; inserted by mesh/layouts. */      \
  OP(kLayerNormMoments, "layer_norm_moments")                                          \
  OP(kLayerNormStatistics, "layer_norm_statistics")                                    \
  OP(kLayerNormApply, "layer_norm_apply")                                              \
  OP(kLayerNormGradientSums, "layer_norm_gradient_sums")                               \
  OP(kLayerNormApplyInputGrad, "layer_norm_apply_input_grad")                          \
  OP(kLayerNormApplyWeightGrad, "layer_norm_apply_weight_grad")                        \
  OP(kCrossEntropyMoments, "cross_entropy_moments")                                    \
  OP(kCrossEntropyStatistics, "cross_entropy_statistics")                              \
  OP(kCrossEntropyOfStatistics, "cross_entropy_of_statistics")                         \
  OP(kCrossEntropyApplyGrad, "cross_entropy_apply_grad")                               \
  OP(kEmbeddingSlice, "embedding_slice")                                               \
  OP(kEmbeddingSliceGrad, "embedding_slice_grad")                                      \
  OP(kCrossEntropyNumerators, "cross_entropy_numerators")                              \
  OP(kLinearSliceInputGrad, "linear_slice_input_grad")                                 \
  OP(kTargetRows, "target_rows")                                                       \
  OP(kCrossEntropyCombinedInputGrad, "cross_entropy_combined_input_grad")              \
  /* Further fused ops of core/ops/fusion.h. */                                        \
  OP(kLayerNormGrad, "layer_norm_grad")                                                \
  OP(kLayerNormInputGradAdd, "layer_norm_input_grad_add")                              \
  OP(kLayerNormGradAdd, "layer_norm_grad_add")                                         \
  OP(kCrossEntropyWithGrad, "cross_entropy_with_grad")

/// Closed set of operators.
enum class OpKind : std::uint8_t {
#define WEFT_OP(kind, name) kind,
  WEFT_OPS(WEFT_OP)
#undef WEFT_OP
};

/// Names of the ops, indexed by enumerator.
inline constexpr std::string_view kOpNames[] = {
#define WEFT_OP(kind, name) name,
    WEFT_OPS(WEFT_OP)
#undef WEFT_OP
};
inline constexpr std::size_t kOpKinds = std::size(kOpNames);

/// Returns "linear", "layer_norm_input_grad", ...; "?" for a number that is not an enumerator.
constexpr std::string_view to_string(OpKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kOpKinds ? kOpNames[index] : "?";
}

}  // namespace weft
