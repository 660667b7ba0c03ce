#pragma once

#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace weft::mesh {

/// Returns the names of a parameter's f32 optimizer blocks, which checkpoints store:
/// "parameter/h0.weight", "first_moment/h0.weight", "second_moment/h0.weight".
inline std::vector<std::string> optimizer_blocks(const std::string& parameter) {
  return {"parameter/" + parameter, "first_moment/" + parameter, "second_moment/" + parameter};
}

/// Returns the name of the block that ops read: the optimizer's own block for an f32 parameter,
/// "working/h0.weight" for a bf16 parameter.
inline std::string working_block(const std::string& parameter, DType dtype) {
  return (dtype == DType::kF32 ? "parameter/" : "working/") + parameter;
}

}  // namespace weft::mesh
