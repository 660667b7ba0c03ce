#pragma once

// Attention of one head, in groups of kTileRows rows (vector_matmul.h). Causal attention computes
// the scores of a group of queries for keys up to the group's end only, so little more than the
// lower half of the square:
//
//             keys
//          +--+--+--+--+    forward:  P = softmax(scale Q K^T); Y = P V
// queries |x |  |  |  |
//          |x |x |  |  |    backward: P = exp(scale Q K^T - statistics); dP = dY V^T;
//          |x |x |x |  |              dS = scale P (dP - rowsum(Y dY));
//          |x |x |x |x |              dQ = dS K, by group of queries; then by group of keys,
//          +--+--+--+--+              over all queries that attend to it: dK = dS^T Q, dV = P^T dY
//
// Queries are processed in blocks of kQueryBlock, the last block first. It attends to all keys and
// writes dK and dV; the other blocks add to them.
#include "core/cpu/internal/vector_kernels.h"
#include "core/cpu/internal/vector_matmul.h"
#include "core/cpu/internal/vector_softmax.h"
#include "core/cpu/internal/vector_transpose.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

constexpr std::int64_t kQueryBlock = std::int64_t{64} * kTileRows;

/// Returns the distance between rows of scores: the keys rounded up to whole vectors, plus padding
/// so that rows use different cache sets.
WEFT_INLINE std::int64_t score_row(std::int64_t keys) { return (keys + 15) / 16 * 16 + 16; }

WEFT_INLINE std::int64_t round_up_to_lanes(std::int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

/// Replaces the valid scores by exp(scale * (x - max)) and the others by 0. Row r has `first` + r *
/// step valid scores out of `columns`, a whole number of vectors. inverse_sums[r] = 1 / their sum,
/// statistics[r] = log sum exp(scale * x).
void masked_exp(float* x, std::int64_t row, int rows, std::int64_t columns, std::int64_t first,
                std::int64_t step, float scale, float* inverse_sums, float* statistics) {
  for (int r = 0; r < rows; ++r, x += row) {
    const std::int64_t valid = first + r * step;
    Vector top = broadcast(kLowest);
    for (std::int64_t c = 0; c < columns; c += kLanes)
      top = max(top, first_lanes(load(x + c), valid - c, kLowest));
    const float maximum = max_lanes(top);
    Vector sum{};
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      const Vector e = first_lanes(exp((load(x + c) - maximum) * scale), valid - c, 0);
      store(x + c, e);
      sum += e;
    }
    const float total = sum_lanes(sum);
    inverse_sums[r] = 1.0f / total;
    statistics[r] = maximum * scale + __builtin_logf(total);
  }
}

/// Computes the same with known statistics: x = exp(scale * x - statistics[r]), the probabilities.
void masked_probabilities(float* x, std::int64_t row, int rows, std::int64_t columns,
                          std::int64_t first, std::int64_t step, float scale,
                          const float* statistics) {
  for (int r = 0; r < rows; ++r, x += row) {
    const std::int64_t valid = first + r * step;
    for (std::int64_t c = 0; c < columns; c += kLanes) {
      store(x + c, first_lanes(exp(load(x + c) * scale - statistics[r]), valid - c, 0));
    }
  }
}

/// Computes q . k for `rows` queries from `first` on and the first `columns` keys.
WEFT_INLINE void scores(const AttentionHead& h, const float* keys, std::int64_t row,
                        std::int64_t first, int rows, std::int64_t columns, float* p) {
  matmul_rows(rows, columns, h.head_dim, {h.q + first * h.q_row, h.q_row, 1}, keys, row, p, row,
              false);
}

float dot(const float* a, const float* b, std::int64_t size) {
  Vector sum{};
  for_vectors(size, [&](std::int64_t c, std::int64_t n) {
    sum += load_up_to(a + c, n) * load_up_to(b + c, n);
  });
  return sum_lanes(sum);
}

void scale_rows(float* x, std::int64_t row, int rows, std::int64_t columns, const float* factors) {
  for (int r = 0; r < rows; ++r) {
    float* xr = x + r * row;
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      store_up_to(xr + c, load_up_to(xr + c, n) * factors[r], n);
    });
  }
}

/// Computes dp = scale * p * (dp - the row's delta). `columns` is a whole number of vectors.
void softmax_grad(const float* p, float* dp, std::int64_t row, int rows, std::int64_t columns,
                  const float* deltas, float scale) {
  for (int r = 0; r < rows; ++r, p += row, dp += row) {
    for (std::int64_t c = 0; c < columns; c += kLanes)
      store(dp + c, load(p + c) * scale * (load(dp + c) - deltas[r]));
  }
}

void attention_head(const AttentionHead& h) {
  const std::int64_t row = score_row(h.keys);
  float* keys = h.workspace;  // K^T
  float* p = keys + h.head_dim * row;
  transpose(h.k, h.kv_row, h.keys, h.head_dim, keys, row);
  for (std::int64_t first = 0; first < h.queries; first += kTileRows) {
    const std::int64_t last = min_of(first + kTileRows, h.queries), end = h.causal ? last : h.keys;
    const int rows = last - first;
    const std::int64_t columns = round_up_to_lanes(end);
    float inverse_sums[kTileRows];
    scores(h, keys, row, first, rows, columns, p);
    masked_exp(p, row, rows, columns, h.causal ? first + 1 : h.keys, h.causal ? 1 : 0, h.scale,
               inverse_sums, h.statistics + first);
    matmul_rows(rows, h.head_dim, end, {p, row, 1}, h.v, h.kv_row, h.y + first * h.y_row, h.y_row,
                false);
    scale_rows(h.y + first * h.y_row, h.y_row, rows, h.head_dim, inverse_sums);
  }
}

void attention_head_grad(const AttentionHead& h, const AttentionHeadGrad& d) {
  const std::int64_t row = score_row(h.keys);
  float* keys = h.workspace;                // K^T
  float* values = keys + h.head_dim * row;  // V^T
  float* p = values + h.head_dim * row;     // probabilities of one query block
  float* ds = p + min_of(kQueryBlock, h.queries) * row;
  transpose(h.k, h.kv_row, h.keys, h.head_dim, keys, row);
  transpose(h.v, h.kv_row, h.keys, h.head_dim, values, row);
  const std::int64_t last_block = (h.queries - 1) / kQueryBlock * kQueryBlock;
  for (std::int64_t block = last_block; block >= 0; block -= kQueryBlock) {
    const std::int64_t block_end = min_of(block + kQueryBlock, h.queries);
    for (std::int64_t first = block; first < block_end; first += kTileRows) {
      const std::int64_t last = min_of(first + kTileRows, block_end),
                         end = h.causal ? last : h.keys;
      const std::int64_t columns = round_up_to_lanes(end);
      const int rows = last - first;
      float* p_rows = p + (first - block) * row;
      float* ds_rows = ds + (first - block) * row;
      float deltas[kTileRows];
      for (int r = 0; r < rows; ++r)
        deltas[r] = dot(d.y + (first + r) * h.y_row, d.dy + (first + r) * h.y_row, h.head_dim);
      scores(h, keys, row, first, rows, columns, p_rows);
      masked_probabilities(p_rows, row, rows, columns, h.causal ? first + 1 : h.keys,
                           h.causal ? 1 : 0, h.scale, d.statistics + first);
      matmul_rows(rows, columns, h.head_dim, {d.dy + first * h.y_row, h.y_row, 1}, values, row,
                  ds_rows, row, false);
      softmax_grad(p_rows, ds_rows, row, rows, columns, deltas, h.scale);
      matmul_rows(rows, h.head_dim, end, {ds_rows, row, 1}, h.k, h.kv_row, d.dq + first * h.q_row,
                  h.q_row, false);
    }
    const bool accumulate = block != last_block;
    const std::int64_t seen = h.causal ? block_end : h.keys;
    for (std::int64_t key = 0; key < seen; key += kTileRows) {
      const int rows = min_of(kTileRows, seen - key);
      // First query that attends to this group of keys; some keys of the group may be masked for
      // it.
      const std::int64_t from = h.causal && key > block ? key : block;
      const std::int64_t depth = block_end - from, at = (from - block) * row + key;
      matmul_rows(rows, h.head_dim, depth, {p + at, 1, row}, d.dy + from * h.y_row, h.y_row,
                  d.dv + key * h.kv_row, h.kv_row, accumulate);
      matmul_rows(rows, h.head_dim, depth, {ds + at, 1, row}, h.q + from * h.q_row, h.q_row,
                  d.dk + key * h.kv_row, h.kv_row, accumulate);
    }
  }
}

std::int64_t attention_workspace(std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
  return score_row(keys) * (2 * head_dim + 2 * min_of(kQueryBlock, queries) + kTileRows);
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE
