// Ops of elementwise.cuh, and sums of rows.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

/// Computes y[i] = f(a[i]) or f(a[i], b[i]), where f is the op.
void run_map(Backend& backend, const OpRun& run) {
  const void* const second = run.inputs.size() > 1 ? run.in(1) : nullptr;
  launch_elementwise(backend.stream(), run.op.kind, run.type(0), run.in(0), second, run.out(),
                     run.size(0), 0, run.accumulate[0]);
}

void run_add(Backend& backend, const OpRun& run) {
  if (run.size(0) == run.size(1)) return run_map(backend, run);
  add_broadcast(backend.stream(), run.type(0), run.in(0), run.in(1), run.out(), run.size(0),
                run.size(0), run.size(1), run.accumulate[0]);
}

void run_add_channels(Backend& backend, const OpRun& run) {
  add_broadcast(backend.stream(), run.type(0), run.in(0), run.in(1), run.out(), run.size(0),
                run.size(0) / run.shape(0).front(), run.columns(0), run.accumulate[0]);
}

void sum_to(Backend& backend, const OpRun& run, std::int64_t batch, std::int64_t columns) {
  const std::int64_t rows = run.size(0) / (batch * columns);
  auto* const workspace =
      backend.allocate_of<float>(column_sums_workspace(batch, rows, columns, 1));
  sum_rows(backend.stream(), run.type(0), run.outputs[0].type.dtype, run.in(0), run.out(), batch,
           rows, columns, run.accumulate[0], workspace);
}

void run_sum_leading(Backend& backend, const OpRun& run) {
  sum_to(backend, run, 1, run.outputs[0].type.elements());
}

void run_sum_positions(Backend& backend, const OpRun& run) {
  sum_to(backend, run, run.shape(0).front(), run.columns(0));
}

}  // namespace

const OpKernel kAddKernel{.run = run_add, .accumulates = true};
const OpKernel kAddChannelsKernel{.run = run_add_channels, .accumulates = true};
const OpKernel kSumLeadingKernel{.run = run_sum_leading, .accumulates = true};
const OpKernel kSumPositionsKernel{.run = run_sum_positions, .accumulates = true};
const OpKernel kMultiplyKernel{.run = run_map, .accumulates = true};
const OpKernel kGeluKernel{.run = run_map, .accumulates = true};
const OpKernel kGeluGradKernel{.run = run_map, .accumulates = true};
const OpKernel kSiluKernel{.run = run_map, .accumulates = true};
const OpKernel kSiluGradKernel{.run = run_map, .accumulates = true};
const OpKernel kSigmoidKernel{.run = run_map, .accumulates = true};
const OpKernel kSigmoidGradKernel{.run = run_map, .accumulates = true};
const OpKernel kToBF16Kernel{.run = run_map, .accumulates = true};
const OpKernel kToF32Kernel{.run = run_map, .accumulates = true};

}  // namespace weft::cuda
