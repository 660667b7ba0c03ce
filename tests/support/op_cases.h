#pragma once

// Every op of a real model, small, in f32 and bf16: what tests run over that must hold for all of
// them. Without the conversions, which have one input type each, and the emulated ops, which
// compute nothing.
#include <optional>
#include <vector>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft::test {

struct OpCase {
  Op op;
  std::vector<TensorType> inputs;
};

/// Ids are to be below 7.
inline std::vector<OpCase> op_cases() {
  const auto f32 = [](Shape shape) { return TensorType{DType::kF32, std::move(shape)}; };
  const auto i32 = [](Shape shape) { return TensorType{DType::kI32, std::move(shape)}; };
  const auto number = [](std::int64_t n) { return Attribute(n); };
  return {
      {{OpKind::kAdd, {}}, {f32({4, 5, 6}), f32({4, 5, 6})}},
      {{OpKind::kAdd, {}}, {f32({4, 5, 6}), f32({5, 6})}},
      {{OpKind::kSumLeading, {{"dimensions", number(2)}}}, {f32({4, 5, 3, 6})}},
      {{OpKind::kLinear, {}}, {f32({4, 5, 8}), f32({8, 6})}},
      {{OpKind::kLinear, {}}, {f32({4, 5, 8}), f32({8, 3, 6}), f32({3, 6})}},
      {{OpKind::kLinearInputGrad, {}}, {f32({4, 5, 3, 6}), f32({8, 3, 6})}},
      {{OpKind::kLinearWeightGrad, {}}, {f32({4, 5, 8}), f32({4, 5, 3, 6})}},
      {{OpKind::kLinearGelu, {{"keep", number(1)}}}, {f32({4, 5, 8}), f32({8, 3, 6}), f32({3, 6})}},
      {{OpKind::kLinearGelu, {{"keep", number(0)}}}, {f32({4, 8}), f32({8, 6}), f32({6})}},
      {{OpKind::kLinearAdd, {}}, {f32({4, 5, 8}), f32({8, 6}), f32({4, 5, 6})}},
      {{OpKind::kLinearAdd, {}}, {f32({4, 5, 8}), f32({8, 3, 6}), f32({4, 5, 3, 6}), f32({3, 6})}},
      {{OpKind::kLinearInputGradGelu, {}}, {f32({4, 5, 3, 6}), f32({8, 3, 6}), f32({4, 5, 8})}},
      {{OpKind::kLinearWeightGradSum, {}}, {f32({4, 5, 8}), f32({4, 5, 3, 6})}},
      {{OpKind::kGelu, {}}, {f32({4, 7})}},
      {{OpKind::kGeluGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kLayerNorm, {{"epsilon", 1e-5}}}, {f32({4, 5, 16}), f32({16}), f32({16})}},
      {{OpKind::kLayerNormInputGrad, {{"epsilon", 1e-5}}},
       {f32({4, 5, 16}), f32({16}), f32({4, 5, 16})}},
      {{OpKind::kLayerNormWeightGrad, {{"epsilon", 1e-5}}}, {f32({4, 5, 16}), f32({4, 5, 16})}},
      {{OpKind::kAttention, {{"head_dim", number(4)}}}, {f32({3, 9, 3, 16})}},
      {{OpKind::kAttentionGrad, {{"head_dim", number(4)}}},
       {f32({3, 9, 3, 16}), f32({3, 9, 16}), f32({3, 4, 9}), f32({3, 9, 16})}},
      {{OpKind::kEmbedding, {}}, {f32({7, 6}), i32({4, 5})}},
      {{OpKind::kEmbeddingGrad, {{"rows", number(7)}}}, {i32({4, 5}), f32({4, 5, 6})}},
      {{OpKind::kCrossEntropy, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5})}},
      {{OpKind::kCrossEntropyGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5})}},
      {{OpKind::kCrossEntropy, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5}), f32({4, 5})}},
      {{OpKind::kCrossEntropyGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), i32({4, 5}), f32({4, 5})}},
      {{OpKind::kSquaredError, {{"scale", 0.1}}}, {f32({4, 5, 7}), f32({4, 5, 7})}},
      {{OpKind::kSquaredErrorGrad, {{"scale", 0.1}}}, {f32({4, 5, 7}), f32({4, 5, 7})}},
      {{OpKind::kSilu, {}}, {f32({4, 7})}},
      {{OpKind::kSiluGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kSigmoid, {}}, {f32({4, 7})}},
      {{OpKind::kSigmoidGrad, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kMultiply, {}}, {f32({4, 7}), f32({4, 7})}},
      {{OpKind::kConvolution, {{"stride", number(1)}, {"padding", number(1)}}},
       {f32({3, 5, 4, 6}), f32({3, 3, 6, 8})}},
      {{OpKind::kConvolution, {{"stride", number(2)}, {"padding", number(1)}}},
       {f32({3, 7, 6, 6}), f32({3, 3, 6, 8}), f32({8})}},
      {{OpKind::kConvolutionInputGrad,
        {{"stride", number(2)},
         {"padding", number(1)},
         {"height", number(7)},
         {"width", number(6)}}},
       {f32({3, 4, 3, 8}), f32({3, 3, 6, 8})}},
      {{OpKind::kConvolutionWeightGrad,
        {{"stride", number(2)},
         {"padding", number(1)},
         {"kernel_height", number(3)},
         {"kernel_width", number(3)}}},
       {f32({3, 7, 6, 6}), f32({3, 4, 3, 8})}},
      {{OpKind::kGroupNorm, {{"group_size", number(4)}, {"epsilon", 1e-5}}},
       {f32({3, 5, 2, 16}), f32({16}), f32({16})}},
      {{OpKind::kGroupNormInputGrad, {{"group_size", number(4)}, {"epsilon", 1e-5}}},
       {f32({3, 5, 2, 16}), f32({16}), f32({3, 5, 2, 16})}},
      {{OpKind::kGroupNormWeightGrad, {{"group_size", number(4)}, {"epsilon", 1e-5}}},
       {f32({3, 5, 2, 16}), f32({3, 5, 2, 16})}},
      {{OpKind::kUpsample, {{"factor", number(2)}}}, {f32({3, 4, 3, 5})}},
      {{OpKind::kUpsampleGrad, {{"factor", number(2)}}}, {f32({3, 4, 6, 5})}},
      {{OpKind::kConcat, {}}, {f32({3, 4, 5}), f32({3, 4, 7})}},
      {{OpKind::kSlice, {{"begin", number(2)}, {"size", number(4)}}}, {f32({3, 4, 7})}},
      {{OpKind::kAddChannels, {}}, {f32({3, 4, 5, 6}), f32({3, 6})}},
      {{OpKind::kSumPositions, {}}, {f32({3, 4, 5, 6})}},
      {{OpKind::kCrossAttention, {{"head_dim", number(4)}}},
       {f32({3, 3, 2, 16}), f32({3, 5, 16}), f32({3, 5, 16})}},
      {{OpKind::kCrossAttentionGrad, {{"head_dim", number(4)}}},
       {f32({3, 3, 2, 16}), f32({3, 5, 16}), f32({3, 5, 16}), f32({3, 3, 2, 16}), f32({3, 4, 3, 2}),
        f32({3, 3, 2, 16})}},
  };
}

/// Of a gradient that reads what its forward op made: the forward op, whose inputs are the
/// gradient's first ones and whose outputs are those after them.
struct KeptByForward {
  Op forward;
  std::size_t inputs = 0;
};
inline std::optional<KeptByForward> kept_by_forward(const Op& op) {
  if (op.kind == OpKind::kAttentionGrad)
    return KeptByForward{{OpKind::kAttention, op.attributes}, 1};
  if (op.kind == OpKind::kCrossAttentionGrad)
    return KeptByForward{{OpKind::kCrossAttention, op.attributes}, 3};
  return std::nullopt;
}

/// Whether the op gives this output in f32 whatever it takes, as it does all gradients of
/// parameters and losses: statistics.
inline bool is_statistics(const Op& op, std::size_t output) {
  return output == 1 && (op.kind == OpKind::kAttention || op.kind == OpKind::kCrossAttention);
}

/// Whether the op takes this input in bf16 when the model is bf16: targets and weights of a loss
/// and statistics stay f32, ids i32.
inline bool follows_precision(const OpCase& c, std::size_t input) {
  if (c.inputs[input].dtype != DType::kF32) return false;
  switch (c.op.kind) {
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyGrad:
    case OpKind::kSquaredError:
    case OpKind::kSquaredErrorGrad: return input == 0;
    case OpKind::kAttentionGrad: return input != 2;
    case OpKind::kCrossAttentionGrad: return input != 4;
    default: return true;
  }
}

inline OpCase in_bf16(OpCase c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (follows_precision(c, i)) c.inputs[i].dtype = DType::kBF16;
  }
  return c;
}

}  // namespace weft::test
