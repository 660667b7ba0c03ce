#pragma once

// Matrix products that cuBLASLt rejects (odd sizes or unaligned addresses in bf16). Not optimised.
// A block of 16 x 16 threads computes a tile of 32 x 32 of c, each thread 2 x 2 elements. Tiles of
// a and b, 32 long in k, pass through shared memory.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kProductTile = 32;
inline constexpr int kProductSide = 16;

/// Returns element [row][column]. A transposed matrix is stored as [column][row] with rows of
/// `rows` elements. Returns 0 outside.
template <typename T>
__device__ __forceinline__ float element_or_zero(const T* matrix, bool transposed, std::int64_t row,
                                                 std::int64_t column, std::int64_t rows,
                                                 std::int64_t columns) {
  if (row >= rows || column >= columns) return 0.0f;
  return to_float(transposed ? matrix[column * rows + row] : matrix[row * columns + column]);
}

template <typename In, typename Out>
__global__ void __launch_bounds__(kProductSide* kProductSide)
    matrix_product_kernel(const In* a, const In* b, const In* bias, Out* c, std::int64_t m,
                          std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b,
                          bool accumulate) {
  __shared__ float as[kProductTile][kProductTile + 1];
  __shared__ float bs[kProductTile][kProductTile + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kProductTile,
                     column_step = std::int64_t{gridDim.y} * kProductTile;
  for (std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kProductTile; column < n;
       column += column_step) {
    float sums[2][2] = {};
    for (std::int64_t begin = 0; begin < k; begin += kProductTile) {
      __syncthreads();
      for (int i = ty; i < kProductTile; i += kProductSide) {
        for (int j = tx; j < kProductTile; j += kProductSide) {
          as[i][j] = element_or_zero(a, transpose_a, row + i, begin + j, m, k);
          bs[i][j] = element_or_zero(b, transpose_b, begin + i, column + j, k, n);
        }
      }
      __syncthreads();
      for (int l = 0; l < kProductTile; ++l) {
        for (int i = 0; i < 2; ++i) {
          for (int j = 0; j < 2; ++j)
            sums[i][j] += as[ty + i * kProductSide][l] * bs[l][tx + j * kProductSide];
        }
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        const std::int64_t r = row + ty + i * kProductSide, s = column + tx + j * kProductSide;
        if (r >= m || s >= n) continue;
        Out* const to = c + r * n + s;
        const float value = sums[i][j] + (bias != nullptr ? to_float(bias[s]) : 0.0f);
        *to = from_float<Out>(accumulate ? to_float(*to) + value : value);
      }
    }
  }
}

void matrix_product(StreamHandle stream, const MatrixProduct& p) {
  const std::int64_t tiles = (p.n + kProductTile - 1) / kProductTile;
  const LaunchShape shape{dim3(blocks_for(p.m, kProductTile), tiles < 65535 ? tiles : 65535),
                          dim3(kProductSide, kProductSide)};
  with_type(p.in, [&](auto in) {
    with_type(p.out, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      if constexpr (sizeof(Out) >= sizeof(In)) {  // products of f32 have no bf16 result
        launch(stream, "matrix_product", shape, matrix_product_kernel<In, Out>,
               static_cast<const In*>(p.a), static_cast<const In*>(p.b),
               static_cast<const In*>(p.bias), static_cast<Out*>(p.c), p.m, p.n, p.k, p.transpose_a,
               p.transpose_b, p.accumulate);
      }
    });
  });
}

}  // namespace weft::cuda
