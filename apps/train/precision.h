#pragma once

#include "core/config/config_node.h"
#include "core/tensor/dtype.h"

namespace weft::apps {

/// Reads `precision: f32` (the default) or `bf16` from a `model:` section.
inline void read_precision(const ConfigNode& model, DType& precision) {
  model.read_enum("precision", precision, {{"f32", DType::kF32}, {"bf16", DType::kBF16}},
                  "Element type of parameters and activations while training; checkpoints are f32");
}

}  // namespace weft::apps
