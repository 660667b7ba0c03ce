// Cross entropy, squared error and their gradients.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

/// Returns the token weights in input i; null means that all are 1.
const float* weights_of(const OpRun& run, std::size_t i = 2) {
  return run.inputs.size() == i + 1 ? run.floats(i) : nullptr;
}

void run_cross_entropy(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0);
  cross_entropy(backend.stream(), run.type(0), run.in(0), run.ids(1), weights_of(run),
                run.out_floats(), rows, run.columns(0), run.op.real("scale"), run.accumulate[0],
                backend.allocate_of<float>(rows), fault_word(run.op), backend.fault());
}

void queue_cross_entropy_grad(Backend& backend, const OpRun& run, float* loss, float* workspace) {
  cross_entropy_grad(backend.stream(), run.type(0), run.in(0), run.ids(1), weights_of(run),
                     run.out(), loss, run.rows(0), run.columns(0), run.op.real("scale"),
                     backend.shared_memory(), workspace, fault_word(run.op), backend.fault());
}

void run_cross_entropy_grad(Backend& backend, const OpRun& run) {
  queue_cross_entropy_grad(backend, run, nullptr, nullptr);
}

void run_cross_entropy_with_grad(Backend& backend, const OpRun& run) {
  queue_cross_entropy_grad(backend, run, run.out_floats(1),
                           backend.allocate_of<float>(run.rows(0)));
}

// Cross entropy with rows split over devices: core/ops/split_cross_entropy.cc.

LogitSlice logit_slice(const OpRun& run) {
  return {run.rows(0), run.columns(0), run.op.integer("first"), run.op.integer("columns")};
}

void run_logit_moments(Backend& backend, const OpRun& run) {
  cross_entropy_moments(backend.stream(), run.type(0), run.in(0), run.ids(1), run.out_floats(),
                        logit_slice(run), run.op.integer("slice_width"), fault_word(run.op),
                        backend.fault());
}

void run_logit_statistics(Backend& backend, const OpRun& run) {
  const std::int64_t slices = run.shape(0)[run.shape(0).size() - 2];
  cross_entropy_statistics(backend.stream(), run.floats(0), run.out_floats(),
                           run.size(0) / (3 * slices), slices);
}

void run_logit_of_statistics(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0);
  cross_entropy_of_statistics(backend.stream(), run.floats(0), weights_of(run, 1), run.out_floats(),
                              rows, run.op.real("scale"), run.accumulate[0],
                              backend.allocate_of<double>(rows));
}

void run_logit_apply_grad(Backend& backend, const OpRun& run) {
  cross_entropy_apply_grad(backend.stream(), run.type(0), run.in(0), run.ids(1), run.floats(2),
                           weights_of(run, 3), run.out(), logit_slice(run),
                           static_cast<float>(run.op.real("scale")), fault_word(run.op),
                           backend.fault());
}

void run_squared_error(Backend& backend, const OpRun& run) {
  auto* const workspace = backend.allocate_of<double>(squared_error_workspace(run.size(0)));
  squared_error(backend.stream(), run.type(0), run.in(0), run.floats(1), run.out_floats(),
                run.size(0), run.op.real("scale"), run.accumulate[0], workspace);
}

void run_squared_error_grad(Backend& backend, const OpRun& run) {
  launch_elementwise(backend.stream(), run.op.kind, run.type(0), run.in(0), run.in(1), run.out(),
                     run.size(0), static_cast<float>(2 * run.op.real("scale")), run.accumulate[0]);
}

}  // namespace

const OpKernel kCrossEntropyKernel{.run = run_cross_entropy, .accumulates = true};
const OpKernel kCrossEntropyGradKernel{run_cross_entropy_grad};
const OpKernel kCrossEntropyWithGradKernel{run_cross_entropy_with_grad};
const OpKernel kCrossEntropyMomentsKernel{run_logit_moments};
const OpKernel kCrossEntropyStatisticsKernel{run_logit_statistics};
const OpKernel kCrossEntropyOfStatisticsKernel{.run = run_logit_of_statistics, .accumulates = true};
const OpKernel kCrossEntropyApplyGradKernel{run_logit_apply_grad};
const OpKernel kSquaredErrorKernel{.run = run_squared_error, .accumulates = true};
const OpKernel kSquaredErrorGradKernel{.run = run_squared_error_grad, .accumulates = true};

}  // namespace weft::cuda
