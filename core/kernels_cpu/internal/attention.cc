// Causal attention, one (batch entry, head) at a time, in blocks of query rows, so that scores stay in the
// second-level cache:
//
//            keys 0 .. end          a block of query rows [begin, end) sees the keys [0, end) alone,
//          +---+---+---+---+        so that almost half of the square is never computed
//  queries | x |   |   |   |
//          | x | x |   |   |        forward:  P = softmax(Q K^T / sqrt(d)); Y = P V
//          | x | x | x |   |        backward: P again; dP = dY V^T; dS = P (dP - rowsum(P dP)) / sqrt(d);
//          | x | x | x | x |                  dQ = dS K; dK += dS^T Q; dV += P^T dY
//          +---+---+---+---+
//
// Backward goes from the last block to the first: the last one sees all keys and writes dK and dV, the others
// add to them.
#include <algorithm>
#include <cmath>

#include "core/kernels_cpu/internal/op_kernels.h"

namespace weft {
namespace {

constexpr std::int64_t kBlock = 64;

/// Sizes of an attention and the addresses of q, k and v in a packed qkv[B,S,3,D].
struct Heads {
  explicit Heads(const OpRun& run)
      : batch(run.shape(0)[0]),
        sequence(run.shape(0)[1]),
        width(run.shape(0)[3]),
        head_dim(run.op.integer("head_dim")),
        scale(1.0f / std::sqrt(static_cast<float>(head_dim))) {}

  std::int64_t packed_offset(std::int64_t b, std::int64_t head, int which) const {
    return b * sequence * 3 * width + which * width + head * head_dim;
  }
  std::int64_t flat_offset(std::int64_t b, std::int64_t head) const {
    return b * sequence * width + head * head_dim;
  }
  std::int64_t packed_row() const { return 3 * width; }

  std::int64_t batch, sequence, width, head_dim;
  float scale;
};

/// p[rows, end] = softmax(scale * q k^T), masked, for the query rows [begin, end).
void probabilities(const VectorKernels& vector, const Heads& h, const float* q, const float* k,
                   std::int64_t begin, std::int64_t end, float* p) {
  const std::int64_t row = h.packed_row();
  gemm(Transpose::kNo, Transpose::kYes, end - begin, end, h.head_dim, q + begin * row, row, k, row, 0, p,
       end);
  vector.causal_softmax(p, end - begin, end, begin, h.scale);
}

void forward_head(const VectorKernels& vector, const Heads& h, const float* q, const float* k, const float* v,
                  float* y, float* p) {
  for (std::int64_t begin = 0; begin < h.sequence; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, h.sequence);
    probabilities(vector, h, q, k, begin, end, p);
    gemm(Transpose::kNo, Transpose::kNo, end - begin, h.head_dim, end, p, end, v, h.packed_row(), 0,
         y + begin * h.width, h.width);
  }
}

struct HeadGradients {
  float *q, *k, *v;
};

void backward_head(const VectorKernels& vector, const Heads& h, const float* q, const float* k,
                   const float* v, const float* dy, const HeadGradients& d, float* p, float* ds) {
  const std::int64_t row = h.packed_row(), dim = h.head_dim;
  const std::int64_t blocks = (h.sequence + kBlock - 1) / kBlock;
  for (std::int64_t block = blocks; block-- > 0;) {
    const std::int64_t begin = block * kBlock, end = std::min(begin + kBlock, h.sequence), rows = end - begin;
    const float beta = block + 1 == blocks ? 0 : 1;
    const float* dy_block = dy + begin * h.width;
    probabilities(vector, h, q, k, begin, end, p);
    gemm(Transpose::kYes, Transpose::kNo, end, dim, rows, p, end, dy_block, h.width, beta, d.v, row);
    gemm(Transpose::kNo, Transpose::kYes, rows, end, dim, dy_block, h.width, v, row, 0, ds, end);
    vector.softmax_grad(p, ds, rows, end, h.scale);
    gemm(Transpose::kNo, Transpose::kNo, rows, dim, end, ds, end, k, row, 0, d.q + begin * row, row);
    gemm(Transpose::kYes, Transpose::kNo, end, dim, rows, ds, end, q + begin * row, row, beta, d.k, row);
  }
}

}  // namespace

void run_attention(CpuKernels::Context& context, const OpRun& run) {
  const Heads h(run);
  float* p = context.workspace.floats(static_cast<std::size_t>(kBlock * h.sequence));
  for (std::int64_t b = 0; b < h.batch; ++b) {
    for (std::int64_t head = 0; head < h.width / h.head_dim; ++head) {
      const float* qkv = run.in(0);
      forward_head(context.vector, h, qkv + h.packed_offset(b, head, 0), qkv + h.packed_offset(b, head, 1),
                   qkv + h.packed_offset(b, head, 2), run.out() + h.flat_offset(b, head), p);
    }
  }
}

void run_attention_grad(CpuKernels::Context& context, const OpRun& run) {
  const Heads h(run);
  const std::int64_t scores = kBlock * h.sequence;
  float* p = context.workspace.floats(static_cast<std::size_t>(2 * scores));
  for (std::int64_t b = 0; b < h.batch; ++b) {
    for (std::int64_t head = 0; head < h.width / h.head_dim; ++head) {
      const float* qkv = run.in(0);
      float* d = run.out();
      const HeadGradients gradients{d + h.packed_offset(b, head, 0), d + h.packed_offset(b, head, 1),
                                    d + h.packed_offset(b, head, 2)};
      backward_head(context.vector, h, qkv + h.packed_offset(b, head, 0), qkv + h.packed_offset(b, head, 1),
                    qkv + h.packed_offset(b, head, 2), run.in(1) + h.flat_offset(b, head), gradients, p,
                    p + scores);
    }
  }
}

}  // namespace weft
