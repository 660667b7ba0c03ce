#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor/dtype.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

/// Computes out = term 0 (+) term 1 (+) ... element by element, always in this order, so that
/// results are bitwise equal everywhere. `out` may be one of the terms. Terms and `out` have
/// out.size() bytes. Supports f32, f64, i32 and bf16. Sums of bf16 accumulate in f32 and round
/// once.
void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte> out);

}  // namespace weft::transfer
