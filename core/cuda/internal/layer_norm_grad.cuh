#pragma once

// Gradients of layer norm in one pass over x and dy: dx, dgamma and dbeta, or a part of them. See
// core/ops/layer_norm.cc for the formulas.
//
// Rows are cut into tiles of up to 8 rows and 32 KiB of x and dy. Block b handles tiles b, b +
// blocks, ...; the cut depends on sizes only. A block of 8 warps copies a tile to shared memory:
//
//          x         dy         sums of the block
//     r0 [......]  [......]     dgamma [......]      a team of 8 / rows warps per row:
//     r1 [......]  [......]     dbeta  [......]      mean, deviation, sums of the row, dx
//     r2 [......]  [......]             ^
//     r3 [......]  [......]             +-- a thread per two columns adds the tile's rows in order
//
// Each block writes its sums; finish_sums_kernel adds the blocks in order. Four blocks fit a
// multiprocessor up to a width of 2048, so that the copies of some blocks overlap the arithmetic of
// others: 100 KB or more under way, where 20 KB keep an H100's memory busy. No row is in
// registers, so that the kernel is the same for all widths. Rows too long for shared memory or at
// unaligned addresses are read from the L1 cache instead.
#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/layer_norm.cuh"
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kGradWarps = 8;
inline constexpr int kGradThreads = kGradWarps * static_cast<int>(kWarp);

/// Assignment of rows to blocks. Does not depend on the GPU, nor do the sums.
struct LayerNormTiles {
  int rows_per_tile = kGradWarps;
  std::int64_t blocks = 1;

  LayerNormTiles(DType type, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t kTileBytes = 32 * 1024;
    while (rows_per_tile > 1 && rows_per_tile * tile_row_bytes(type, columns) > kTileBytes)
      rows_per_tile /= 2;
    const std::int64_t tiles = blocks_for(rows, rows_per_tile);
    blocks = tiles < kBlocksWanted ? tiles : kBlocksWanted;
  }
  static std::int64_t tile_row_bytes(DType type, std::int64_t columns) {
    return 2 * columns *
           static_cast<std::int64_t>(type == DType::kBF16 ? sizeof(Bf16) : sizeof(float));
  }
  std::size_t shared_bytes(DType type, std::int64_t columns) const {
    return rows_per_tile * tile_row_bytes(type, columns) + 2 * columns * sizeof(float);
  }
};

std::int64_t layer_norm_grad_workspace(DType type, std::int64_t rows, std::int64_t columns) {
  return LayerNormTiles(type, rows, columns).blocks * 2 * columns;
}

/// LayerNormGrad with element types.
template <typename T>
struct LayerNormGradTensors {
  const T *x, *gamma, *dy, *addend;
  T* dx;           ///< Null: not wanted.
  float* partial;  ///< [blocks, 2, columns]: sums of dy * h and of dy. Null: not wanted.
};

/// Warps that share a row.
struct RowTeam {
  int warps, first_warp;

  /// Adds each value over the team, in a fixed order. All threads of the block must call it.
  /// `shared` has kCount * kGradWarps elements that no other call uses before the next barrier.
  template <int kCount>
  __device__ __forceinline__ void sum(float (&values)[kCount], float* shared) const {
    for (int i = 0; i < kCount; ++i) values[i] = sum_lanes(values[i]);
    if (warps == 1) return;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kCount; ++i) shared[i * kGradWarps + threadIdx.y] = values[i];
    }
    __syncthreads();
    for (int i = 0; i < kCount; ++i) {
      values[i] = 0;
      for (int w = 0; w < warps; ++w) values[i] += shared[i * kGradWarps + first_warp + w];
    }
  }
};

/// Columns of a tile that a thread adds at a time. 1 for rows that are not aligned.
template <int N>
inline constexpr int kSumColumns = N > 1 ? 2 : 1;

/// Adds dy * h and dy of `count` rows to sums[2][columns].
template <int N, typename T>
__device__ __forceinline__ void add_tile(const T* x, const T* dy, const RowStatistics* statistics,
                                         int count, int columns, float* sums) {
  constexpr int kN = kSumColumns<N>;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  for (int c = thread * kN; c < columns; c += kGradThreads * kN) {
    Pack<float, kN> gamma = load<kN>(sums + c), beta = load<kN>(sums + columns + c);
#pragma unroll 4
    for (int r = 0; r < count; ++r) {
      const std::int64_t at = static_cast<std::int64_t>(r) * columns + c;
      const Pack<T, kN> v = load<kN>(x + at), d = load<kN>(dy + at);
      const RowStatistics s = statistics[r];
      for (int n = 0; n < kN; ++n) {
        gamma.elements[n] += d[n] * ((v[n] - s.mean) * s.inverse_deviation);
        beta.elements[n] += d[n];
      }
    }
    store<kN>(sums + c, gamma);
    store<kN>(sums + columns + c, beta);
  }
}

/// Columns of a row that a thread of its team handles: first, first + stride, ... below end, N at a
/// time. A team without a row has end 0: it computes nothing, but takes part in barriers and
/// shuffles.
struct ThreadColumns {
  int first, stride, end;
};

/// Returns the statistics of a row. All threads of the block must call it. `shared`: 2 * kGradWarps
/// elements.
template <int N, typename T>
__device__ __forceinline__ RowStatistics row_statistics(const T* x, const RowTeam& team,
                                                        const ThreadColumns& own,
                                                        float inverse_width, float epsilon,
                                                        float* shared) {
  float mean[1] = {0}, variance[1] = {0};
  for (int c = own.first; c < own.end; c += own.stride) {
    const Pack<T, N> v = load<N>(x + c);
    for (int n = 0; n < N; ++n) mean[0] += v[n];
  }
  team.sum(mean, shared);
  mean[0] *= inverse_width;
  for (int c = own.first; c < own.end; c += own.stride) {
    const Pack<T, N> v = load<N>(x + c);
    for (int n = 0; n < N; ++n) variance[0] += (v[n] - mean[0]) * (v[n] - mean[0]);
  }
  team.sum(variance, shared + kGradWarps);
  return {mean[0], 1.0f / sqrtf(variance[0] * inverse_width + epsilon)};
}

/// Writes dx of a row, which begins at element `to` of the tensors. All threads of the block must
/// call it. `shared`: 2 * kGradWarps elements.
template <int N, typename T>
__device__ __forceinline__ void write_row_grad(const LayerNormGradTensors<T>& t, std::int64_t to,
                                               const T* x, const T* dy, const RowStatistics& s,
                                               const RowTeam& team, const ThreadColumns& own,
                                               float inverse_width, float* shared) {
  float row[2] = {0, 0};  // sums of g = dy * gamma and of g * (x - mean)
  for (int c = own.first; c < own.end; c += own.stride) {
    const Pack<T, N> v = load<N>(x + c), d = load<N>(dy + c), gammas = load<N>(t.gamma + c);
    for (int n = 0; n < N; ++n) {
      const float g = d[n] * gammas[n];
      row[0] += g;
      row[1] += g * (v[n] - s.mean);
    }
  }
  team.sum(row, shared);
  const float mean_g = row[0] * inverse_width;
  const float mean_gh = row[1] * inverse_width * s.inverse_deviation;
  for (int c = own.first; c < own.end; c += own.stride) {
    const Pack<T, N> v = load<N>(x + c), d = load<N>(dy + c), gammas = load<N>(t.gamma + c);
    Pack<T, N> addend{};
    if (t.addend != nullptr) addend = load<N>(t.addend + to + c);
    Pack<T, N> result;
    for (int n = 0; n < N; ++n) {
      const float h = (v[n] - s.mean) * s.inverse_deviation;
      result.set(n, addend[n] + (d[n] * gammas[n] - mean_g - h * mean_gh) * s.inverse_deviation);
    }
    store<N>(t.dx + to + c, result);
  }
}

/// Applies `each` to the columns of the sums that a thread zeroes, adds to, and writes: these are
/// the same everywhere, so that no barrier is needed.
template <int N, typename Each>
__device__ __forceinline__ void for_sum_columns(int columns, const Each& each) {
  constexpr int kSums = kSumColumns<N>;
  const int thread = threadIdx.y * static_cast<int>(kWarp) + threadIdx.x;
  for (int c = thread * kSums; c < columns; c += kGradThreads * kSums) {
    each(c);
    each(columns + c);
  }
}

/// Copies `count` elements of x and dy to shared memory and waits for them.
template <int N, typename T>
__device__ __forceinline__ void stage_tile(const T* x, const T* dy, T* tile_x, T* tile_dy,
                                           int count) {
  const int thread = threadIdx.y * static_cast<int>(kWarp) + threadIdx.x;
  for (int i = thread * N; i < count; i += kGradThreads * N) {
    __pipeline_memcpy_async(tile_x + i, x + i, sizeof(T) * N);
    __pipeline_memcpy_async(tile_dy + i, dy + i, sizeof(T) * N);
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

/// kStaged: tiles and sums are in shared memory.
template <typename T, int N, bool kStaged>
__global__ void __launch_bounds__(kGradThreads, 4)
    layer_norm_grad_kernel(LayerNormGradTensors<T> t, std::int64_t rows, int columns,
                           int rows_per_tile, float epsilon) {
  __shared__ float team_sums[4 * kGradWarps];
  __shared__ RowStatistics statistics[kGradWarps];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int team_warps = kGradWarps / rows_per_tile, team_row = warp / team_warps;
  const RowTeam team{team_warps, team_row * team_warps};
  const int first = ((warp - team.first_warp) * static_cast<int>(kWarp) + lane) * N;
  const int stride = team_warps * static_cast<int>(kWarp) * N;
  const float inverse_width = 1.0f / static_cast<float>(columns);
  T* const tile_x = kStaged ? dynamic_shared<T>() : nullptr;
  T* const tile_dy = kStaged ? tile_x + rows_per_tile * columns : nullptr;
  float* const partial =
      t.partial == nullptr ? nullptr : t.partial + std::int64_t{2} * columns * blockIdx.x;
  float* const sums =
      kStaged ? reinterpret_cast<float*>(tile_dy + rows_per_tile * columns) : partial;
  constexpr int kSums = kSumColumns<N>;
  if (partial != nullptr)
    for_sum_columns<N>(columns, [&](int c) { store<kSums>(sums + c, Pack<float, kSums>{}); });
  for (std::int64_t begin = std::int64_t{blockIdx.x} * rows_per_tile; begin < rows;
       begin += std::int64_t{gridDim.x} * rows_per_tile) {
    const int count = rows - begin < rows_per_tile ? static_cast<int>(rows - begin) : rows_per_tile;
    const T *xs = t.x + begin * columns, *dys = t.dy + begin * columns;
    if constexpr (kStaged) {
      stage_tile<N>(xs, dys, tile_x, tile_dy, count * columns);
      xs = tile_x;
      dys = tile_dy;
    }
    const ThreadColumns own{first, stride, team_row < count ? columns : 0};
    const T *const x = xs + static_cast<std::int64_t>(team_row) * columns,
                   *const dy = dys + static_cast<std::int64_t>(team_row) * columns;
    const RowStatistics s = row_statistics<N>(x, team, own, inverse_width, epsilon, team_sums);
    if (partial != nullptr) {
      if (first == 0) statistics[team_row] = s;
      __syncthreads();
      add_tile<N>(xs, dys, statistics, count, columns, sums);
      if constexpr (!kStaged) __syncthreads();  // dx may be dy
    }
    if (t.dx != nullptr)
      write_row_grad<N>(t, (begin + team_row) * columns, x, dy, s, team, own, inverse_width,
                        team_sums + 2 * kGradWarps);
    __syncthreads();  // before the next tile overwrites shared memory
  }
  if constexpr (kStaged) {
    if (partial != nullptr)
      for_sum_columns<N>(columns, [&](int c) { store<kSums>(partial + c, load<kSums>(sums + c)); });
  }
}

void layer_norm_grad(StreamHandle stream, DType type, const LayerNormGrad& grad, std::int64_t rows,
                     std::int64_t columns, float epsilon, std::size_t shared_bytes,
                     float* workspace) {
  const char* const name = "layer_norm_grad";
  const LayerNormTiles tiles(type, rows, columns);
  const unsigned blocks = tiles.blocks;
  float* const partial = grad.weights.gamma != nullptr ? workspace : nullptr;
  const LaunchShape staged{blocks, dim3(kWarp, kGradWarps), tiles.shared_bytes(type, columns)},
      from_cache{blocks, dim3(kWarp, kGradWarps)};
  constexpr std::size_t kStaticBytes = kGradWarps * (4 * sizeof(float) + sizeof(RowStatistics));
  const bool fits = staged.shared_bytes + kStaticBytes <= shared_bytes;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const LayerNormGradTensors<T> tensors{
        static_cast<const T*>(grad.x),  static_cast<const T*>(grad.gamma),
        static_cast<const T*>(grad.dy), static_cast<const T*>(grad.addend),
        static_cast<T*>(grad.dx),       partial};
    const auto run = [&](const LaunchShape& shape, auto kernel) {
      launch(stream, name, shape, kernel, tensors, rows, static_cast<int>(columns),
             tiles.rows_per_tile, epsilon);
    };
    with_rows<T>(
        columns,
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          if constexpr (kN > 1) {
            if (fits) return run(staged, layer_norm_grad_kernel<T, kN, true>);
          }
          run(from_cache, layer_norm_grad_kernel<T, kN, false>);
        },
        grad.x, grad.gamma, grad.dy, grad.addend, grad.dx);
  });
  if (partial == nullptr) return;
  const WeightGradients& to = grad.weights;
  launch(stream, name, {dim3(blocks_for(columns, kWarp), 2), dim3(kWarp, kSumWarps)},
         finish_sums_kernel<float, 2>, partial, std::int64_t{1}, tiles.blocks, columns,
         SumOutputs<float, 2>{{to.gamma, to.beta}, {to.add_to_gamma, to.add_to_beta}});
}

}  // namespace weft::cuda
