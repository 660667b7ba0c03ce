#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor/dtype.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

/// out = term 0 (+) term 1 (+) ... element by element, in this order, whatever the terms' number:
/// the same bits everywhere. `out` may be one of the terms. Terms and out have out.size() bytes;
/// f32, f64, i32 or bf16. Sums of bf16 are taken in f32 and rounded once.
void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte> out);

}  // namespace weft::transfer
