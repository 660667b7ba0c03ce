// attention and its gradient, one (batch entry, head) at a time; see vector_attention.h for how, core/ops/attention.cc for what.
#include <cmath>

#include "core/kernels_cpu/internal/op_kernels.h"

namespace weft {
namespace {

/// Calls body(offset in qkv of the head's q, offset in y) for every batch entry and head; k and v follow q at 1 and 2 widths.
template <typename Body>
void for_heads(const OpRun& run, Body body) {
  const Shape& qkv = run.shape(0);
  const std::int64_t batch = qkv[0], sequence = qkv[1], width = qkv[3], head_dim = run.op.integer("head_dim");
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t column = 0; column < width; column += head_dim) {
      body(b * sequence * 3 * width + column, b * sequence * width + column);
    }
  }
}

/// All of a head but its addresses.
AttentionHead head_sizes(CpuKernels::Context& context, const OpRun& run) {
  const Shape& qkv = run.shape(0);
  AttentionHead head{};
  head.sequence = qkv[1];
  head.head_dim = run.op.integer("head_dim");
  head.qkv_row = 3 * qkv[3];
  head.y_row = qkv[3];
  head.scale = 1.0f / std::sqrt(static_cast<float>(head.head_dim));
  head.workspace =
      context.workspace.floats(static_cast<std::size_t>(context.vector.attention_workspace(head.sequence, head.head_dim)));
  return head;
}

void set_qkv(AttentionHead& head, const float* q) {
  head.q = q;
  head.k = q + head.y_row;
  head.v = q + 2 * head.y_row;
}

}  // namespace

void run_attention(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = head_sizes(context, run);
  for_heads(run, [&](std::int64_t qkv_offset, std::int64_t y_offset) {
    set_qkv(head, run.in(0) + qkv_offset);
    head.y = run.out() + y_offset;
    context.vector.attention_head(head);
  });
}

void run_attention_grad(CpuKernels::Context& context, const OpRun& run) {
  AttentionHead head = head_sizes(context, run);
  for_heads(run, [&](std::int64_t qkv_offset, std::int64_t y_offset) {
    set_qkv(head, run.in(0) + qkv_offset);
    float* dq = run.out() + qkv_offset;
    context.vector.attention_head_grad(head, {run.in(1) + y_offset, dq, dq + head.y_row, dq + 2 * head.y_row});
  });
}

}  // namespace weft
