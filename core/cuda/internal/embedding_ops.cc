// Rows of a table, and its gradient.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

void run_embedding(Backend& backend, const OpRun& run) {
  embedding(backend.stream(), run.type(0), run.in(0), run.ids(1), run.out(), run.size(1),
            run.shape(0)[0], run.columns(0), fault_word(run.op), backend.fault());
}

void run_embedding_grad(Backend& backend, const OpRun& run) {
  if (!run.accumulate[0]) backend.fill_zero(run.out(), run.outputs[0].type.bytes());
  const std::int64_t tokens = run.size(0);
  auto* const workspace = backend.allocate_of<std::uint64_t>(embedding_grad_workspace(tokens));
  embedding_grad(backend.stream(), run.type(1), run.ids(0), run.in(1), run.out_floats(), tokens,
                 run.op.integer("rows"), run.columns(1), workspace, fault_word(run.op),
                 backend.fault());
}

}  // namespace

const OpKernel kEmbeddingKernel{run_embedding};
const OpKernel kEmbeddingGradKernel{.run = run_embedding_grad, .accumulates = true};

}  // namespace weft::cuda
