#pragma once

// Transposes matrices in squares of kLanes by kLanes, in registers.
#include "core/cpu/internal/vector.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

/// Swaps the upper right and the lower left quadrant of every square of 2 Width by 2 Width lanes.
template <int Width, std::size_t... Lane>
WEFT_INLINE void exchange_squares(Vector* rows, std::index_sequence<Lane...>) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Width) != 0) continue;
    const Vector a = rows[i], b = rows[i + Width];
    rows[i] =
        __builtin_shufflevector(a, b, ((Lane & Width) == 0 ? Lane : kLanes + Lane - Width)...);
    rows[i + Width] =
        __builtin_shufflevector(a, b, ((Lane & Width) == 0 ? Lane + Width : kLanes + Lane)...);
  }
}

WEFT_INLINE void transpose_square(const float* from, std::int64_t from_row, float* to,
                                  std::int64_t to_row) {
  constexpr auto kAll = std::make_index_sequence<kLanes>();
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_row);
  if constexpr (kLanes >= 16) exchange_squares<8>(rows, kAll);
  if constexpr (kLanes >= 8) exchange_squares<4>(rows, kAll);
  exchange_squares<2>(rows, kAll);
  exchange_squares<1>(rows, kAll);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * to_row, rows[i]);
}

/// Computes to[c, r] = from[r, c], with zeros for r from `rows` to the next whole vector.
void transpose(const float* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
               float* to, std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      if (r + kLanes <= rows && c + kLanes <= columns) {
        transpose_square(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
        continue;
      }
      for (std::int64_t i = c; i < min_of(c + kLanes, columns); ++i) {
        for (std::int64_t k = r; k < r + kLanes; ++k)
          to[i * to_row + k] = k < rows ? from[k * from_row + i] : 0;
      }
    }
  }
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE
