#pragma once

// Attention for all element types and sizes, in float on CUDA cores: for f32 models, and for bf16
// where cuDNN does not support the op. Tiles of R queries by R keys pass through shared memory;
// only one tile of probabilities exists at a time (Dao et al., "FlashAttention", 2022). A block has
// (R/2)^2 threads, each of which computes 2 x 2 scores of a tile.
//
//   forward    a block per R queries and head: loops over all tiles of keys, with running maximum
//              and sum per query, and y in shared memory.
//   backward   1. delta = dy . y per query, into the work space
//              2. dq: like forward, over tiles of keys.
//              3. dk, dv: a block per R keys, over tiles of queries. No atomic additions.
//
// A row of a tile has head_dim + 1 floats, which avoids bank conflicts between threads that read
// one column of several rows.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

template <int R>
struct AttentionTile {
  static constexpr int kSide = R / 2;
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kScoreRow = R + 1;
  static constexpr int kScores = R * kScoreRow;

  static __host__ __device__ int row(int head_dim) { return head_dim + 1; }
  /// Returns the bytes of shared memory for `tiles` tiles, `scores` score tiles and `vectors`
  /// numbers per row.
  static __host__ __device__ std::size_t bytes(std::int64_t head_dim, int tiles, int scores,
                                               int vectors) {
    return sizeof(float) * (tiles * R * (head_dim + 1) + scores * kScores + vectors * R);
  }
};

/// The block's head of a tensor: element (row, d) is at base + row * stride + d.
template <typename T>
struct HeadView {
  T* base;
  std::int64_t stride, rows;
};
template <typename T>
__device__ __forceinline__ HeadView<T> head_of(T* tensor, const Attention& shape,
                                               std::int64_t batch_stride, std::int64_t row_stride,
                                               std::int64_t rows) {
  return {tensor + blockIdx.z * batch_stride + blockIdx.y * shape.head_dim, row_stride, rows};
}

/// Fills a tile with rows `first`, `first` + 1, ...; zeros beyond the end.
template <int R, typename T>
__device__ __forceinline__ void load_tile(const HeadView<const T>& head, std::int64_t first,
                                          int head_dim, float* tile) {
  for (int e = threadIdx.x; e < R * head_dim; e += AttentionTile<R>::kThreads) {
    const int row = e / head_dim, d = e % head_dim;
    const bool inside = first + row < head.rows;
    tile[row * AttentionTile<R>::row(head_dim) + d] =
        inside ? to_float(head.base[(first + row) * head.stride + d]) : 0.0f;
  }
}

template <int R, typename T>
__device__ __forceinline__ void store_tile(const float* tile, const HeadView<T>& head,
                                           std::int64_t first, int head_dim, float factor) {
  for (int e = threadIdx.x; e < R * head_dim; e += AttentionTile<R>::kThreads) {
    const int row = e / head_dim, d = e % head_dim;
    if (first + row >= head.rows) continue;
    head.base[(first + row) * head.stride + d] =
        from_float<T>(tile[row * AttentionTile<R>::row(head_dim) + d] * factor);
  }
}

/// Computes products[i][j] = a[row] . b[column] for this thread's 2 x 2 rows and columns: (ty or ty
/// + R/2, tx or tx + R/2).
template <int R>
__device__ __forceinline__ void multiply_tiles(const float* a, const float* b, int head_dim,
                                               float (&products)[2][2]) {
  using Tile = AttentionTile<R>;
  const int tx = static_cast<int>(threadIdx.x) % Tile::kSide,
            ty = static_cast<int>(threadIdx.x) / Tile::kSide;
  const int row = Tile::row(head_dim);
  const float *a0 = a + ty * row, *a1 = a0 + Tile::kSide * row, *b0 = b + tx * row,
              *b1 = b0 + Tile::kSide * row;
  products[0][0] = products[0][1] = products[1][0] = products[1][1] = 0;
#pragma unroll 4
  for (int d = 0; d < head_dim; ++d) {
    products[0][0] += a0[d] * b0[d];
    products[0][1] += a0[d] * b1[d];
    products[1][0] += a1[d] * b0[d];
    products[1][1] += a1[d] * b1[d];
  }
}

/// Calls f(i, j, row, column) for this thread's scores of a tile.
template <int R, typename F>
__device__ __forceinline__ void for_scores(F f) {
  using Tile = AttentionTile<R>;
  const int tx = static_cast<int>(threadIdx.x) % Tile::kSide,
            ty = static_cast<int>(threadIdx.x) / Tile::kSide;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) f(i, j, ty + i * Tile::kSide, tx + j * Tile::kSide);
  }
}

/// Computes sums[row][d] = sums[row][d] * factors(row) + sum over j of weights(row, j) *
/// values[j][d].
template <int R, typename Weights, typename Factors>
__device__ __forceinline__ void add_weighted_rows(float* sums, const float* values, int head_dim,
                                                  Weights weights, Factors factors) {
  const int stride = AttentionTile<R>::row(head_dim);
  for (int e = threadIdx.x; e < R * head_dim; e += AttentionTile<R>::kThreads) {
    const int row = e / head_dim, d = e % head_dim;
    float sum = sums[row * stride + d] * factors(row);
#pragma unroll 8
    for (int j = 0; j < R; ++j) sum += weights(row, j) * values[j * stride + d];
    sums[row * stride + d] = sum;
  }
}

template <int R>
__device__ __forceinline__ void zero_tile(float* tile, int head_dim) {
  for (int e = threadIdx.x; e < R * AttentionTile<R>::row(head_dim);
       e += AttentionTile<R>::kThreads)
    tile[e] = 0;
}

/// Returns true if query i attends to key j.
__device__ __forceinline__ bool visible(const Attention& shape, std::int64_t i, std::int64_t j) {
  return i < shape.queries && j < shape.keys && (!shape.causal || j <= i);
}
/// Returns the number of keys to which any query below `end` attends.
__device__ __forceinline__ std::int64_t keys_for(const Attention& shape, std::int64_t end) {
  return shape.causal && end < shape.keys ? end : shape.keys;
}

/// Returns the offset of this block's head in [batch, heads, queries].
__device__ __forceinline__ std::int64_t statistics_begin(const Attention& shape) {
  return (blockIdx.z * shape.heads + blockIdx.y) * shape.queries;
}

template <typename T, int R>
__global__ void __launch_bounds__(AttentionTile<R>::kThreads)
    attention_kernel(Attention shape, float scale, const T* q, const T* k, const T* v, T* y,
                     float* log_sums) {
  using Tile = AttentionTile<R>;
  const int head_dim = shape.head_dim, stride = Tile::row(head_dim);
  float* const qs = dynamic_shared<float>();
  float *const ks = qs + R * stride, *const vs = ks + R * stride, *const ys = vs + R * stride,
               *const scores = ys + R * stride;
  float *const maxima = scores + Tile::kScores, *const sums = maxima + R, *const factors = sums + R;
  const auto q_head = head_of(q, shape, shape.q_batch, shape.q_row, shape.queries);
  const auto k_head = head_of(k, shape, shape.k_batch, shape.k_row, shape.keys);
  const auto v_head = head_of(v, shape, shape.k_batch, shape.k_row, shape.keys);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * R;
  const int thread = threadIdx.x, lane = thread % static_cast<int>(kWarp),
            warp = thread / static_cast<int>(kWarp);

  load_tile<R>(q_head, first, head_dim, qs);
  zero_tile<R>(ys, head_dim);
  if (thread < R) {
    maxima[thread] = -INFINITY;
    sums[thread] = 0;
  }
  const std::int64_t end = keys_for(shape, first + R);
  for (std::int64_t key = 0; key < end; key += R) {
    __syncthreads();  // the previous tile is no longer used, and the initial values are written
    load_tile<R>(k_head, key, head_dim, ks);
    load_tile<R>(v_head, key, head_dim, vs);
    __syncthreads();
    float products[2][2];
    multiply_tiles<R>(qs, ks, head_dim, products);
    for_scores<R>([&](int i, int j, int row, int column) {
      scores[row * Tile::kScoreRow + column] =
          visible(shape, first + row, key + column) ? products[i][j] * scale : -INFINITY;
    });
    __syncthreads();
    for (int row = warp; row < R; row += Tile::kThreads / static_cast<int>(kWarp)) {
      const float score = lane < R ? scores[row * Tile::kScoreRow + lane] : -INFINITY;
      float maximum = fmaxf(maxima[row], score);
      for (int distance = 16; distance > 0; distance /= 2)
        maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, distance));
      const float weight = maximum == -INFINITY ? 0.0f : expf(score - maximum);
      const float sum = sum_lanes(weight);
      if (lane < R) scores[row * Tile::kScoreRow + lane] = weight;
      if (lane == 0) {
        const float factor = maximum == -INFINITY ? 1.0f : expf(maxima[row] - maximum);
        factors[row] = factor;
        sums[row] = sums[row] * factor + sum;
        maxima[row] = maximum;
      }
    }
    __syncthreads();
    add_weighted_rows<R>(
        ys, vs, head_dim, [&](int row, int j) { return scores[row * Tile::kScoreRow + j]; },
        [&](int row) { return factors[row]; });
  }
  __syncthreads();
  for (int e = thread; e < R * head_dim; e += Tile::kThreads) {
    const int row = e / head_dim;
    if (sums[row] > 0) ys[row * stride + e % head_dim] /= sums[row];
  }
  __syncthreads();
  store_tile<R>(ys, head_of(y, shape, shape.y_batch, shape.y_row, shape.queries), first, head_dim,
                1.0f);
  if (thread < R && first + thread < shape.queries)
    log_sums[statistics_begin(shape) + first + thread] = maxima[thread] + logf(sums[thread]);
}

constexpr int kDeltaThreads = 128;

/// Computes delta with one warp per query.
template <typename T>
__global__ void __launch_bounds__(kDeltaThreads)
    attention_delta_kernel(Attention shape, const T* y, const T* dy, float* deltas) {
  const int lane = static_cast<int>(threadIdx.x) % static_cast<int>(kWarp),
            warp = static_cast<int>(threadIdx.x) / static_cast<int>(kWarp);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kDeltaThreads / static_cast<int>(kWarp)) + warp;
  if (row >= shape.queries) return;
  const auto y_head = head_of(y, shape, shape.y_batch, shape.y_row, shape.queries);
  const auto dy_head = head_of(dy, shape, shape.y_batch, shape.y_row, shape.queries);
  float delta = 0;
  for (std::int64_t d = lane; d < shape.head_dim; d += kWarp) {
    delta += to_float(y_head.base[row * y_head.stride + d]) *
             to_float(dy_head.base[row * dy_head.stride + d]);
  }
  delta = sum_lanes(delta);
  if (lane == 0) deltas[statistics_begin(shape) + row] = delta;
}

/// Computes, for the tile at `first_query` and `first_key`, the probabilities p and ds = p * (dy .
/// v - delta) into shared tiles. `ps` may be null.
template <int R>
__device__ __forceinline__ void score_gradients(const Attention& shape, float scale,
                                                std::int64_t first_query, std::int64_t first_key,
                                                const float* qs, const float* ks, const float* vs,
                                                const float* dys, const float* log_sums,
                                                const float* deltas, float* ps, float* dss) {
  using Tile = AttentionTile<R>;
  float products[2][2], dps[2][2];
  multiply_tiles<R>(qs, ks, static_cast<int>(shape.head_dim), products);
  multiply_tiles<R>(dys, vs, static_cast<int>(shape.head_dim), dps);
  for_scores<R>([&](int i, int j, int row, int column) {
    const bool seen = visible(shape, first_query + row, first_key + column);
    const float p = seen ? expf(products[i][j] * scale - log_sums[row]) : 0.0f;
    if (ps != nullptr) ps[row * Tile::kScoreRow + column] = p;
    dss[row * Tile::kScoreRow + column] = seen ? p * (dps[i][j] - deltas[row]) : 0.0f;
  });
}

/// Loads log-sum-exp and delta of the tile's queries.
template <int R>
__device__ __forceinline__ void load_statistics(const Attention& shape, std::int64_t first,
                                                const float* log_sums, const float* deltas,
                                                float* tile_log_sums, float* tile_deltas) {
  const int row = threadIdx.x;
  if (row >= R) return;
  const bool inside = first + row < shape.queries;
  tile_log_sums[row] = inside ? log_sums[statistics_begin(shape) + first + row] : 0.0f;
  tile_deltas[row] = inside ? deltas[statistics_begin(shape) + first + row] : 0.0f;
}

template <typename T, int R>
__global__ void __launch_bounds__(AttentionTile<R>::kThreads)
    attention_query_grad_kernel(Attention shape, float scale, const T* q, const T* k, const T* v,
                                const T* dy, const float* log_sums, const float* deltas, T* dq) {
  using Tile = AttentionTile<R>;
  const int head_dim = shape.head_dim, stride = Tile::row(head_dim);
  float* const qs = dynamic_shared<float>();
  float *const dys = qs + R * stride, *const ks = dys + R * stride, *const vs = ks + R * stride,
               *const dqs = vs + R * stride;
  float *const dss = dqs + R * stride, *const tile_log_sums = dss + Tile::kScores,
               *const tile_deltas = tile_log_sums + R;
  const auto k_head = head_of(k, shape, shape.k_batch, shape.k_row, shape.keys);
  const auto v_head = head_of(v, shape, shape.k_batch, shape.k_row, shape.keys);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * R;

  load_tile<R>(head_of(q, shape, shape.q_batch, shape.q_row, shape.queries), first, head_dim, qs);
  load_tile<R>(head_of(dy, shape, shape.y_batch, shape.y_row, shape.queries), first, head_dim, dys);
  load_statistics<R>(shape, first, log_sums, deltas, tile_log_sums, tile_deltas);
  zero_tile<R>(dqs, head_dim);
  const std::int64_t end = keys_for(shape, first + R);
  for (std::int64_t key = 0; key < end; key += R) {
    __syncthreads();
    load_tile<R>(k_head, key, head_dim, ks);
    load_tile<R>(v_head, key, head_dim, vs);
    __syncthreads();
    score_gradients<R>(shape, scale, first, key, qs, ks, vs, dys, tile_log_sums, tile_deltas,
                       nullptr, dss);
    __syncthreads();
    add_weighted_rows<R>(
        dqs, ks, head_dim, [&](int row, int j) { return dss[row * Tile::kScoreRow + j]; },
        [](int) { return 1.0f; });
  }
  __syncthreads();
  store_tile<R>(dqs, head_of(dq, shape, shape.q_batch, shape.q_row, shape.queries), first, head_dim,
                scale);
}

template <typename T, int R>
__global__ void __launch_bounds__(AttentionTile<R>::kThreads)
    attention_key_grad_kernel(Attention shape, float scale, const T* q, const T* k, const T* v,
                              const T* dy, const float* log_sums, const float* deltas, T* dk,
                              T* dv) {
  using Tile = AttentionTile<R>;
  const int head_dim = shape.head_dim, stride = Tile::row(head_dim);
  float* const ks = dynamic_shared<float>();
  float *const vs = ks + R * stride, *const qs = vs + R * stride, *const dys = qs + R * stride,
               *const dks = dys + R * stride, *const dvs = dks + R * stride;
  float *const ps = dvs + R * stride, *const dss = ps + Tile::kScores,
               *const tile_log_sums = dss + Tile::kScores, *const tile_deltas = tile_log_sums + R;
  const auto q_head = head_of(q, shape, shape.q_batch, shape.q_row, shape.queries);
  const auto dy_head = head_of(dy, shape, shape.y_batch, shape.y_row, shape.queries);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * R;

  load_tile<R>(head_of(k, shape, shape.k_batch, shape.k_row, shape.keys), first, head_dim, ks);
  load_tile<R>(head_of(v, shape, shape.k_batch, shape.k_row, shape.keys), first, head_dim, vs);
  zero_tile<R>(dks, head_dim);
  zero_tile<R>(dvs, head_dim);
  for (std::int64_t query = shape.causal ? first : 0; query < shape.queries; query += R) {
    __syncthreads();
    load_tile<R>(q_head, query, head_dim, qs);
    load_tile<R>(dy_head, query, head_dim, dys);
    load_statistics<R>(shape, query, log_sums, deltas, tile_log_sums, tile_deltas);
    __syncthreads();
    score_gradients<R>(shape, scale, query, first, qs, ks, vs, dys, tile_log_sums, tile_deltas, ps,
                       dss);
    __syncthreads();
    add_weighted_rows<R>(
        dvs, dys, head_dim, [&](int row, int j) { return ps[j * Tile::kScoreRow + row]; },
        [](int) { return 1.0f; });
    add_weighted_rows<R>(
        dks, qs, head_dim, [&](int row, int j) { return dss[j * Tile::kScoreRow + row]; },
        [](int) { return 1.0f; });
  }
  __syncthreads();
  store_tile<R>(dks, head_of(dk, shape, shape.k_batch, shape.k_row, shape.keys), first, head_dim,
                scale);
  store_tile<R>(dvs, head_of(dv, shape, shape.k_batch, shape.k_row, shape.keys), first, head_dim,
                1.0f);
}

/// Returns the shared memory of the key gradient, which needs the most tiles.
template <int R>
std::size_t attention_bytes(std::int64_t head_dim) {
  return AttentionTile<R>::bytes(head_dim, 6, 2, 3);
}

std::int64_t attention_max_head_dim(std::size_t shared_bytes) {
  std::int64_t head_dim = 0;
  while (attention_bytes<16>(head_dim + 1) <= shared_bytes) ++head_dim;
  return head_dim;
}

/// Calls f(T(), PackSize<R>()) with the largest tile that fits.
template <typename F>
void with_attention_tile(DType type, std::int64_t head_dim, std::size_t shared_bytes, F f) {
  with_type(type, [&](auto t) {
    if (attention_bytes<32>(head_dim) <= shared_bytes) {
      f(t, PackSize<32>());
    } else {
      f(t, PackSize<16>());
    }
  });
}

template <int R>
LaunchShape attention_launch(const Attention& shape, std::int64_t rows, int tiles, int scores,
                             int vectors) {
  return {dim3(blocks_for(rows, R), shape.heads, shape.batch), AttentionTile<R>::kThreads,
          AttentionTile<R>::bytes(shape.head_dim, tiles, scores, vectors)};
}

inline float attention_scale(const Attention& shape) {
  return 1.0f / sqrtf(static_cast<float>(shape.head_dim));
}

void attention(StreamHandle stream, DType type, const Attention& shape, const void* q,
               const void* k, const void* v, void* y, float* statistics, std::size_t shared_bytes) {
  with_attention_tile(type, shape.head_dim, shared_bytes, [&](auto t, auto r) {
    using T = decltype(t);
    constexpr int kR = decltype(r)::value;
    launch(stream, "attention", attention_launch<kR>(shape, shape.queries, 4, 1, 3),
           attention_kernel<T, kR>, shape, attention_scale(shape), static_cast<const T*>(q),
           static_cast<const T*>(k), static_cast<const T*>(v), static_cast<T*>(y), statistics);
  });
}

void attention_grad(StreamHandle stream, DType type, const Attention& shape,
                    const AttentionGradTensors& tensors, float* workspace,
                    std::size_t shared_bytes) {
  const float* const log_sums = tensors.statistics;
  float* const deltas = workspace;
  const float scale = attention_scale(shape);
  with_attention_tile(type, shape.head_dim, shared_bytes, [&](auto t, auto r) {
    using T = decltype(t);
    constexpr int kR = decltype(r)::value;
    const auto *const q = static_cast<const T*>(tensors.q),
                      *const k = static_cast<const T*>(tensors.k),
                      *const v = static_cast<const T*>(tensors.v),
                      *const dy = static_cast<const T*>(tensors.dy);
    const dim3 delta_blocks(blocks_for(shape.queries, kDeltaThreads / static_cast<int>(kWarp)),
                            shape.heads, shape.batch);
    launch(stream, "attention_grad: deltas", LaunchShape{delta_blocks, kDeltaThreads, 0},
           attention_delta_kernel<T>, shape, static_cast<const T*>(tensors.y), dy, deltas);
    launch(stream, "attention_grad: queries", attention_launch<kR>(shape, shape.queries, 5, 1, 2),
           attention_query_grad_kernel<T, kR>, shape, scale, q, k, v, dy, log_sums, deltas,
           static_cast<T*>(tensors.dq));
    launch(stream, "attention_grad: keys", attention_launch<kR>(shape, shape.keys, 6, 2, 2),
           attention_key_grad_kernel<T, kR>, shape, scale, q, k, v, dy, log_sums, deltas,
           static_cast<T*>(tensors.dk), static_cast<T*>(tensors.dv));
  });
}

}  // namespace weft::cuda
