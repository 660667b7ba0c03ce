#pragma once

#include "core/ops/op_definition.h"

namespace weft {

// add.cc
extern const OpDefinition kAddDefinition;
extern const OpDefinition kSumLeadingDefinition;
// linear.cc
extern const OpDefinition kLinearDefinition;
extern const OpDefinition kLinearInputGradDefinition;
extern const OpDefinition kLinearWeightGradDefinition;
// linear_fused.cc
extern const OpDefinition kLinearGeluDefinition;
extern const OpDefinition kLinearAddDefinition;
extern const OpDefinition kLinearInputGradGeluDefinition;
extern const OpDefinition kLinearWeightGradSumDefinition;
// layer_norm.cc
extern const OpDefinition kLayerNormDefinition;
extern const OpDefinition kLayerNormInputGradDefinition;
extern const OpDefinition kLayerNormWeightGradDefinition;
// attention.cc
extern const OpDefinition kAttentionDefinition;
extern const OpDefinition kAttentionGradDefinition;
// embedding.cc
extern const OpDefinition kEmbeddingDefinition;
extern const OpDefinition kEmbeddingGradDefinition;
// emulated_block.cc
extern const OpDefinition kEmulatedBlockDefinition;
extern const OpDefinition kEmulatedInputGradDefinition;
extern const OpDefinition kEmulatedWeightGradDefinition;
// cross_entropy.cc
extern const OpDefinition kCrossEntropyDefinition;
extern const OpDefinition kCrossEntropyGradDefinition;
// activation.cc
extern const OpDefinition kGeluDefinition;
extern const OpDefinition kGeluGradDefinition;
extern const OpDefinition kSiluDefinition;
extern const OpDefinition kSiluGradDefinition;
extern const OpDefinition kSigmoidDefinition;
extern const OpDefinition kSigmoidGradDefinition;
// multiply.cc
extern const OpDefinition kMultiplyDefinition;
// convolution.cc
extern const OpDefinition kConvolutionDefinition;
extern const OpDefinition kConvolutionInputGradDefinition;
extern const OpDefinition kConvolutionWeightGradDefinition;
// group_norm.cc
extern const OpDefinition kGroupNormDefinition;
extern const OpDefinition kGroupNormInputGradDefinition;
extern const OpDefinition kGroupNormWeightGradDefinition;
// upsample.cc
extern const OpDefinition kUpsampleDefinition;
extern const OpDefinition kUpsampleGradDefinition;
// concat.cc
extern const OpDefinition kConcatDefinition;
extern const OpDefinition kSliceDefinition;
// add_channels.cc
extern const OpDefinition kAddChannelsDefinition;
extern const OpDefinition kSumPositionsDefinition;
// cross_attention.cc
extern const OpDefinition kCrossAttentionDefinition;
extern const OpDefinition kCrossAttentionGradDefinition;
// squared_error.cc
extern const OpDefinition kSquaredErrorDefinition;
extern const OpDefinition kSquaredErrorGradDefinition;
// convert.cc
extern const OpDefinition kToBF16Definition;
extern const OpDefinition kToF32Definition;

}  // namespace weft
