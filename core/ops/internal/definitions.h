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
// gelu.cc
extern const OpDefinition kGeluDefinition;
extern const OpDefinition kGeluGradDefinition;
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
// cross_entropy.cc
extern const OpDefinition kCrossEntropyDefinition;
extern const OpDefinition kCrossEntropyGradDefinition;

}  // namespace weft
