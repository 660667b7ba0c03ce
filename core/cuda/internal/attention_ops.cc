// Attention ops: cuDNN's fused kernels if they support the type and sizes, Weft's own otherwise.
#include "core/base/error.h"
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

void check_head_dim(const Backend& backend, const OpRun& run) {
  const std::int64_t most = attention_max_head_dim(backend.shared_memory()),
                     head_dim = run.op.integer("head_dim");
  if (head_dim <= most) return;
  throw_error(ErrorCode::kInvalidArgument,
              "{}: heads wider than {} do not fit this GPU's shared memory; use more heads",
              to_string(run.op), most);
}

/// Returns the sizes and strides of qkv[B, S, 3, D].
Attention packed_shape(const OpRun& run) {
  const Shape& qkv = run.shape(0);
  const std::int64_t sequence = qkv[1], width = qkv[3], head_dim = run.op.integer("head_dim");
  const std::int64_t row = 3 * width;
  return {.batch = qkv[0],
          .heads = width / head_dim,
          .queries = sequence,
          .keys = sequence,
          .head_dim = head_dim,
          .causal = true,
          .q_batch = sequence * row,
          .q_row = row,
          .k_batch = sequence * row,
          .k_row = row,
          .y_batch = sequence * width,
          .y_row = width};
}

/// Returns the sizes and strides of q[B, Q..., D] and k[B, K..., D].
Attention separate_shape(const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), width = run.columns(0),
                     head_dim = run.op.integer("head_dim");
  const std::int64_t queries = run.rows(0) / batch, keys = run.rows(1) / batch;
  return {.batch = batch,
          .heads = width / head_dim,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .causal = false,
          .q_batch = queries * width,
          .q_row = width,
          .k_batch = keys * width,
          .k_row = width,
          .y_batch = queries * width,
          .y_row = width};
}

void attend(Backend& backend, const OpRun& run, const Attention& shape, const void* q,
            const void* k, const void* v) {
  if (backend.attend(run.type(0), shape, q, k, v, run.out(), run.out_floats(1))) return;
  check_head_dim(backend, run);
  attention(backend.stream(), run.type(0), shape, q, k, v, run.out(), run.out_floats(1),
            backend.shared_memory());
}

void attend_grad(Backend& backend, const OpRun& run, const Attention& shape,
                 const AttentionGradTensors& tensors) {
  if (backend.attend_grad(run.type(0), shape, tensors)) return;
  check_head_dim(backend, run);
  auto* const workspace = backend.allocate_of<float>(shape.batch * shape.heads * shape.queries);
  attention_grad(backend.stream(), run.type(0), shape, tensors, workspace, backend.shared_memory());
}

void run_attention(Backend& backend, const OpRun& run) {
  const std::int64_t width = run.columns(0);
  attend(backend, run, packed_shape(run), run.in(0), advance(run.in(0), width, run.type(0)),
         advance(run.in(0), 2 * width, run.type(0)));
}

void run_attention_grad(Backend& backend, const OpRun& run) {
  const std::int64_t width = run.columns(0);
  const DType type = run.type(0);
  attend_grad(backend, run, packed_shape(run),
              {.q = run.in(0),
               .k = advance(run.in(0), width, type),
               .v = advance(run.in(0), 2 * width, type),
               .y = run.in(1),
               .dy = run.in(3),
               .statistics = run.floats(2),
               .dq = run.out(),
               .dk = advance(run.out(), width, type),
               .dv = advance(run.out(), 2 * width, type)});
}

void run_cross_attention(Backend& backend, const OpRun& run) {
  attend(backend, run, separate_shape(run), run.in(0), run.in(1), run.in(2));
}

void run_cross_attention_grad(Backend& backend, const OpRun& run) {
  attend_grad(backend, run, separate_shape(run),
              {.q = run.in(0),
               .k = run.in(1),
               .v = run.in(2),
               .y = run.in(3),
               .dy = run.in(5),
               .statistics = run.floats(4),
               .dq = run.out(0),
               .dk = run.out(1),
               .dv = run.out(2)});
}

}  // namespace

const OpKernel kAttentionKernel{run_attention};
const OpKernel kAttentionGradKernel{run_attention_grad};
const OpKernel kCrossAttentionKernel{run_cross_attention};
const OpKernel kCrossAttentionGradKernel{run_cross_attention_grad};

}  // namespace weft::cuda
