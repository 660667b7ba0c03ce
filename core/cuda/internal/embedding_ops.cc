// Embedding ops and their gradients.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

TableSlice whole_table(std::int64_t rows, std::int64_t columns) { return {0, rows, rows, columns}; }

/// Returns the slice of the table that the op states; see core/ops/embedding_slice.cc.
TableSlice slice_of(const OpRun& run, std::int64_t columns) {
  return {run.op.integer("first"), run.op.integer("count"), run.op.integer("rows"), columns};
}

void look_up(Backend& backend, const OpRun& run, const TableSlice& slice) {
  embedding(backend.stream(), run.type(0), run.in(0), run.ids(1), run.out(), run.size(1), slice,
            fault_word(run.op), backend.fault());
}

void add_rows(Backend& backend, const OpRun& run, const TableSlice& slice) {
  if (!run.accumulate[0]) backend.fill_zero(run.out(), run.outputs[0].type.bytes());
  const std::int64_t tokens = run.size(0);
  auto* const workspace = backend.allocate_of<std::uint64_t>(embedding_grad_workspace(tokens));
  embedding_grad(backend.stream(), run.type(1), run.ids(0), run.in(1), run.out_floats(), tokens,
                 slice, workspace, fault_word(run.op), backend.fault());
}

void run_embedding(Backend& backend, const OpRun& run) {
  look_up(backend, run, whole_table(run.shape(0)[0], run.columns(0)));
}
void run_embedding_grad(Backend& backend, const OpRun& run) {
  add_rows(backend, run, whole_table(run.op.integer("rows"), run.columns(1)));
}
void run_embedding_slice(Backend& backend, const OpRun& run) {
  look_up(backend, run, slice_of(run, run.columns(0)));
}
void run_embedding_slice_grad(Backend& backend, const OpRun& run) {
  add_rows(backend, run, slice_of(run, run.columns(1)));
}

}  // namespace

const OpKernel kEmbeddingKernel{run_embedding};
const OpKernel kEmbeddingGradKernel{.run = run_embedding_grad, .accumulates = true};
const OpKernel kEmbeddingSliceKernel{run_embedding_slice};
const OpKernel kEmbeddingSliceGradKernel{.run = run_embedding_slice_grad, .accumulates = true};

}  // namespace weft::cuda
