#pragma once

// Products of small, cache-resident matrices for attention: c[m,n] (+)= sum_k a(m,k) * b[k,n]. Rows
// of b and c are contiguous; a may have any strides, so that it can be transposed. Each element of
// c is one chain of multiply-adds in the order of k, for any tile size.
#include "core/cpu/internal/vector.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

/// Strided matrix: a(m,k) is data[m * row + k * column].
struct Strided {
  const float* data;
  std::int64_t row;
  std::int64_t column;
};

constexpr int kTileRows = 6;
// 24 sums fit in AVX-512's 32 registers; 12 in the 16 of AVX2 and SSE.
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

/// Computes c[Rows, Vectors * kLanes] in registers.
template <int Rows, int Vectors>
void matmul_tile(std::int64_t depth, Strided a, const float* b, std::int64_t b_row, float* c,
                 std::int64_t c_row, bool accumulate) {
  Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int m = 0; m < Rows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < Vectors; ++n)
      sum[m][n] = accumulate ? load(c + m * c_row + n * kLanes) : Vector{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector row[Vectors];
#pragma GCC unroll 8
    for (int n = 0; n < Vectors; ++n) row[n] = load(b + k * b_row + n * kLanes);
#pragma GCC unroll 8
    for (int m = 0; m < Rows; ++m) {
      const float factor = a.data[m * a.row + k * a.column];
#pragma GCC unroll 8
      for (int n = 0; n < Vectors; ++n) sum[m][n] += factor * row[n];
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < Rows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < Vectors; ++n) store(c + m * c_row + n * kLanes, sum[m][n]);
  }
}

using MatmulTile = void (*)(std::int64_t, Strided, const float*, std::int64_t, float*, std::int64_t,
                            bool);

template <int Rows>
MatmulTile tile_of_vectors(int vectors) {
  if constexpr (kTileVectors == 4) {
    if (vectors == 4) return matmul_tile<Rows, 4>;
    if (vectors == 3) return matmul_tile<Rows, 3>;
  }
  return vectors == 2 ? matmul_tile<Rows, 2> : matmul_tile<Rows, 1>;
}

MatmulTile tile_of(int rows, int vectors) {
  switch (rows) {
    case 1: return tile_of_vectors<1>(vectors);
    case 2: return tile_of_vectors<2>(vectors);
    case 3: return tile_of_vectors<3>(vectors);
    case 4: return tile_of_vectors<4>(vectors);
    case 5: return tile_of_vectors<5>(vectors);
    default: return tile_of_vectors<6>(vectors);
  }
}

/// Computes the last columns of c, fewer than a vector.
void matmul_rest(int rows, std::int64_t columns, std::int64_t depth, Strided a, const float* b,
                 std::int64_t b_row, float* c, std::int64_t c_row, bool accumulate) {
  for (int m = 0; m < rows; ++m) {
    Vector sum = accumulate ? load_part(c + m * c_row, columns) : Vector{};
    for (std::int64_t k = 0; k < depth; ++k)
      sum += a.data[m * a.row + k * a.column] * load_part(b + k * b_row, columns);
    store_part(c + m * c_row, sum, columns);
  }
}

/// Computes at most kTileRows rows of c, with any number of columns.
void matmul_rows(int rows, std::int64_t columns, std::int64_t depth, Strided a, const float* b,
                 std::int64_t b_row, float* c, std::int64_t c_row, bool accumulate) {
  std::int64_t n = 0;
  while (n + kLanes <= columns) {
    const std::int64_t left = (columns - n) / kLanes;
    const int vectors = left < kTileVectors ? static_cast<int>(left) : kTileVectors;
    tile_of(rows, vectors)(depth, a, b + n, b_row, c + n, c_row, accumulate);
    n += vectors * kLanes;
  }
  if (n < columns) matmul_rest(rows, columns - n, depth, a, b + n, b_row, c + n, c_row, accumulate);
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE
