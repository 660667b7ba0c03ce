// Cross entropy, squared error and their gradients.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

/// Of the tokens; null where all are 1.
const float* weights_of(const OpRun& run) {
  return run.inputs.size() == 3 ? run.floats(2) : nullptr;
}

void run_cross_entropy(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0);
  cross_entropy(backend.stream(), run.type(0), run.in(0), run.ids(1), weights_of(run),
                run.out_floats(), rows, run.columns(0), run.op.real("scale"), run.accumulate[0],
                backend.allocate_of<float>(rows), fault_word(run.op), backend.fault());
}

void run_cross_entropy_grad(Backend& backend, const OpRun& run) {
  cross_entropy_grad(backend.stream(), run.type(0), run.in(0), run.ids(1), weights_of(run),
                     run.out(), run.rows(0), run.columns(0),
                     static_cast<float>(run.op.real("scale")), fault_word(run.op), backend.fault());
}

void run_squared_error(Backend& backend, const OpRun& run) {
  auto* const workspace = backend.allocate_of<double>(squared_error_workspace(run.size(0)));
  squared_error(backend.stream(), run.type(0), run.in(0), run.floats(1), run.out_floats(),
                run.size(0), run.op.real("scale"), run.accumulate[0], workspace);
}

void run_squared_error_grad(Backend& backend, const OpRun& run) {
  map(backend.stream(), run.op.kind, run.type(0), run.in(0), run.in(1), run.out(), run.size(0),
      static_cast<float>(2 * run.op.real("scale")), run.accumulate[0]);
}

}  // namespace

const OpKernel kCrossEntropyKernel{.run = run_cross_entropy, .accumulates = true};
const OpKernel kCrossEntropyGradKernel{run_cross_entropy_grad};
const OpKernel kSquaredErrorKernel{.run = run_squared_error, .accumulates = true};
const OpKernel kSquaredErrorGradKernel{.run = run_squared_error_grad, .accumulates = true};

}  // namespace weft::cuda
