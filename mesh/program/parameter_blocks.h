#pragma once

#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace weft::mesh {

/// Where the optimizer has one parameter, all f32, and what checkpoints hold of it:
/// "parameter/h0.weight", "first_moment/h0.weight", "second_moment/h0.weight".
inline std::vector<std::string> checkpoint_blocks(const std::string& parameter) {
  return {"parameter/" + parameter, "first_moment/" + parameter, "second_moment/" + parameter};
}

/// Where ops read it: of an f32 parameter the optimizer's own block, of a bf16 one
/// "working/h0.weight".
inline std::string block_that_ops_read(const std::string& parameter, DType dtype) {
  return (dtype == DType::kF32 ? "parameter/" : "working/") + parameter;
}

}  // namespace weft::mesh
