// attention, cross_attention and their gradients, per head and batch entry. vector_attention.h has
// the algorithm; core/ops/attention.cc and cross_attention.cc define the ops.
#include <cmath>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

/// Calls body(offset in qkv of the head's q, offset in y, offset in the statistics) for every batch
/// entry and head. k and v follow q at offsets of 1 and 2 widths.
template <typename Body>
void for_heads(const OpRun& run, Body body) {
  const Shape& qkv = run.shape(0);
  const std::int64_t batch = qkv[0], sequence = qkv[1], width = qkv[3],
                     head_dim = run.op.integer("head_dim");
  std::int64_t statistics = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t column = 0; column < width; column += head_dim) {
      body(b * sequence * 3 * width + column, b * sequence * width + column, statistics);
      statistics += sequence;
    }
  }
}

void set_scale_and_workspace(CpuKernels::Context& context, const OpRun& run, AttentionHead& head) {
  head.head_dim = run.op.integer("head_dim");
  head.scale = 1.0f / std::sqrt(static_cast<float>(head.head_dim));
  const std::int64_t floats =
      context.vector.attention_workspace(head.queries, head.keys, head.head_dim);
  head.workspace = context.workspace.floats(floats);
}

/// Returns a head with all members set except addresses.
AttentionHead head_sizes(CpuKernels::Context& context, const OpRun& run) {
  const Shape& qkv = run.shape(0);
  AttentionHead head{};
  head.queries = head.keys = qkv[1];
  head.q_row = head.kv_row = 3 * qkv[3];
  head.y_row = qkv[3];
  head.causal = true;
  set_scale_and_workspace(context, run, head);
  return head;
}

void set_qkv(AttentionHead& head, const float* q) {
  head.q = q;
  head.k = q + head.y_row;
  head.v = q + 2 * head.y_row;
}

/// Returns the same for cross attention, whose tensors have separate shapes [batch, positions...,
/// width].
AttentionHead cross_head_sizes(CpuKernels::Context& context, const OpRun& run) {
  const Shape &q = run.shape(0), &k = run.shape(1);
  AttentionHead head{};
  head.queries = run.size(0) / (q.front() * q.back());
  head.keys = run.size(1) / (k.front() * k.back());
  head.q_row = head.kv_row = head.y_row = q.back();
  head.causal = false;
  set_scale_and_workspace(context, run, head);
  return head;
}

/// Calls body(offset in q and y, offset in k and v, offset in the statistics) for every batch entry
/// and head.
template <typename Body>
void for_cross_heads(const AttentionHead& head, std::int64_t batch, Body body) {
  std::int64_t statistics = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t column = 0; column < head.q_row; column += head.head_dim) {
      body(b * head.queries * head.q_row + column, b * head.keys * head.kv_row + column,
           statistics);
      statistics += head.queries;
    }
  }
}

void set_q_k_v(AttentionHead& head, const OpRun& run, std::int64_t queries, std::int64_t keys) {
  head.q = run.floats(0) + queries;
  head.k = run.floats(1) + keys;
  head.v = run.floats(2) + keys;
}

void run_attention(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = head_sizes(context, run);
  for_heads(run, [&](std::int64_t qkv_offset, std::int64_t y_offset, std::int64_t statistics) {
    set_qkv(head, run.floats(0) + qkv_offset);
    head.y = run.out_floats() + y_offset;
    head.statistics = run.out_floats(1) + statistics;
    context.vector.attention_head(head);
  });
}

void run_attention_grad(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = head_sizes(context, run);
  for_heads(run, [&](std::int64_t qkv_offset, std::int64_t y_offset, std::int64_t statistics) {
    set_qkv(head, run.floats(0) + qkv_offset);
    float* dq = run.out_floats() + qkv_offset;
    context.vector.attention_head_grad(
        head, {run.floats(1) + y_offset, run.floats(2) + statistics, run.floats(3) + y_offset, dq,
               dq + head.y_row, dq + 2 * head.y_row});
  });
}

void run_cross_attention(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = cross_head_sizes(context, run);
  for_cross_heads(head, run.shape(0).front(),
                  [&](std::int64_t queries, std::int64_t keys, std::int64_t statistics) {
                    set_q_k_v(head, run, queries, keys);
                    head.y = run.out_floats() + queries;
                    head.statistics = run.out_floats(1) + statistics;
                    context.vector.attention_head(head);
                  });
}

void run_cross_attention_grad(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = cross_head_sizes(context, run);
  for_cross_heads(head, run.shape(0).front(),
                  [&](std::int64_t queries, std::int64_t keys, std::int64_t statistics) {
                    set_q_k_v(head, run, queries, keys);
                    context.vector.attention_head_grad(
                        head, {run.floats(3) + queries, run.floats(4) + statistics,
                               run.floats(5) + queries, run.out_floats(0) + queries,
                               run.out_floats(1) + keys, run.out_floats(2) + keys});
                  });
}

}  // namespace

const CpuOpKernel kAttentionKernel{run_attention};
const CpuOpKernel kAttentionGradKernel{run_attention_grad};
const CpuOpKernel kCrossAttentionKernel{run_cross_attention};
const CpuOpKernel kCrossAttentionGradKernel{run_cross_attention_grad};

}  // namespace weft
