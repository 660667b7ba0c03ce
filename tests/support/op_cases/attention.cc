// Cases of attention and cross-attention.
#include <cmath>

#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

/// Rows of q, k and v as offsets of a batch entry and head. `q_row` and `k_row` are row strides.
struct Heads {
  const double *q, *k, *v;
  std::size_t q_row, k_row, queries, keys, head;
  bool causal;
};

/// Computes y[i] = sum over j of softmax_j(q[i] . k[j] / sqrt(head)) v[j]. `y_row` is the row
/// stride of y.
void attend(const Heads& h, double* y, std::size_t y_row) {
  for (std::size_t i = 0; i < h.queries; ++i) {
    const std::size_t keys = h.causal ? i + 1 : h.keys;
    Numbers weights;
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < h.head; ++c) score += h.q[i * h.q_row + c] * h.k[j * h.k_row + c];
      weights.push_back(std::exp(score / std::sqrt(h.head)));
      sum += weights.back();
    }
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t c = 0; c < h.head; ++c)
        y[i * y_row + c] += weights[j] / sum * h.v[j * h.k_row + c];
    }
  }
}

Numbers reference_attention(const ReferenceRun& run) {
  const std::size_t sequence = run.shapes[0][1], head = run.op.integer("head_dim");
  const std::size_t width = run.last(0);
  Numbers y(run.batch() * sequence * width, 0.0);
  for (std::size_t b = 0; b < run.batch(); ++b) {
    for (std::size_t column = 0; column < width; column += head) {
      const double* const q = run.in(0).data() + b * sequence * 3 * width + column;
      attend({q, q + width, q + 2 * width, 3 * width, 3 * width, sequence, sequence, head, true},
             y.data() + b * sequence * width + column, width);
    }
  }
  return y;
}

Numbers reference_cross_attention(const ReferenceRun& run) {
  const std::size_t head = run.op.integer("head_dim");
  const std::size_t width = run.last(0), queries = run.in(0).size() / (run.batch() * width),
                    keys = run.in(1).size() / (run.batch() * width);
  Numbers y(run.in(0).size(), 0.0);
  for (std::size_t b = 0; b < run.batch(); ++b) {
    for (std::size_t column = 0; column < width; column += head) {
      const std::size_t q = b * queries * width + column, k = b * keys * width + column;
      attend({run.in(0).data() + q, run.in(1).data() + k, run.in(2).data() + k, width, width,
              queries, keys, head, false},
             y.data() + q, width);
    }
  }
  return y;
}

}  // namespace

void add_attention_cases(OpCases& to) {
  to.references[OpKind::kAttention] = reference_attention;
  to.references[OpKind::kCrossAttention] = reference_cross_attention;
  struct Packed {
    Shape qkv;
    std::int64_t head;
    double gradient_size = 4;
  };
  // The last case's heads are so wide that tiles of 32 do not fit.
  for (const auto& [qkv, head, gradient_size] :
       {Packed{{2, 5, 3, 6}, 3}, Packed{{1, 37, 3, 32}, 16}, Packed{{1, 70, 3, 8}, 8},
        Packed{{3, 9, 3, 16}, 4}, Packed{{2, 13, 3, 10}, 5}, Packed{{1, 131, 3, 4}, 4},
        Packed{{1, 18, 3, 300}, 300, 8}}) {
    const Shape y{qkv[0], qkv[1], qkv[3]}, statistics{qkv[0], qkv[3] / head, qkv[1]};
    const Op op{OpKind::kAttention, {{"head_dim", head}}};
    to.add({.op = op, .inputs = {{qkv}}, .f32_outputs = {1}});
    to.add({.op = {OpKind::kAttentionGrad, op.attributes},
            .inputs = {{qkv}, {y}, {statistics, Holds::kF32}, {y}},
            .size = gradient_size,
            .kept = KeptByForward{op, 1}});
  }
  struct Separate {
    Shape q, k;
    std::int64_t head;
  };
  for (const auto& [q, k, head] :
       {Separate{{2, 3, 4, 6}, {2, 5, 6}, 3}, Separate{{1, 40, 16}, {1, 7, 5, 16}, 8},
        Separate{{2, 1, 8}, {2, 70, 8}, 4}, Separate{{3, 3, 2, 16}, {3, 5, 16}, 4},
        Separate{{2, 3, 5, 10}, {2, 13, 10}, 5}, Separate{{1, 401, 4}, {1, 3, 4}, 4}}) {
    Shape statistics(q.begin(), q.end() - 1);
    statistics.insert(statistics.begin() + 1, q.back() / head);
    const Op op{OpKind::kCrossAttention, {{"head_dim", head}}};
    to.add({.op = op, .inputs = {{q}, {k}, {k}}, .f32_outputs = {1}});
    to.add({.op = {OpKind::kCrossAttentionGrad, op.attributes},
            .inputs = {{q}, {k}, {k}, {q}, {statistics, Holds::kF32}, {q}},
            .size = 4,
            .kept = KeptByForward{op, 3}});
  }
}

}  // namespace weft::test
