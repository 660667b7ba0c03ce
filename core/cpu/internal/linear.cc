// linear and its gradients as matrix products; see core/ops/linear.cc. All dimensions of x except
// the last are rows (M), the last is K, and all dimensions of w except the first are columns (N).
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

/// Computes y = x w (+ bias) from the op's first two inputs.
void multiply(CpuKernels::Context& context, const OpRun& run, const float* bias, float* y) {
  const std::int64_t m = run.rows(0), k = run.shape(1)[0], n = run.size(1) / k;
  if (bias != nullptr) {
    context.biased_matmul.run(m, n, k, run.floats(0), run.floats(1), bias, y);
  } else {
    gemm(Transpose::kNo, Transpose::kNo, m, n, k, run.floats(0), k, run.floats(1), n, 0, y, n);
  }
}

void run_linear(CpuKernels::Context& context, const OpRun& run) {
  multiply(context, run, run.inputs.size() == 3 ? run.floats(2) : nullptr, run.out_floats());
}

void run_linear_input_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t k = run.shape(1)[0], n = run.size(1) / k, m = run.size(0) / n;
  gemm(Transpose::kNo, Transpose::kYes, m, k, n, run.floats(0), n, run.floats(1), n,
       run.accumulate[0] ? 1 : 0, run.out_floats(), k);
}

void run_linear_weight_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t m = run.rows(0), k = run.columns(0), n = run.size(1) / m;
  gemm(Transpose::kYes, Transpose::kNo, k, n, m, run.floats(0), k, run.floats(1), n,
       run.accumulate[0] ? 1 : 0, run.out_floats(), n);
}

// Fused ops of linear_fused.cc. They run their two ops in sequence, with bitwise equal results.

void run_linear_gelu(CpuKernels::Context& context, const OpRun& run) {
  float* const h = run.outputs.size() == 2 ? run.out_floats(1) : run.out_floats(0);
  multiply(context, run, run.floats(2), h);
  context.vector.gelu(h, run.out_floats(), run.outputs[0].type.elements());
}

void run_linear_add(CpuKernels::Context& context, const OpRun& run) {
  multiply(context, run, run.inputs.size() == 4 ? run.floats(3) : nullptr, run.out_floats());
  context.vector.add_row(run.out_floats(), run.floats(2), run.out_floats(), 1,
                         run.outputs[0].type.elements());
}

void run_linear_input_grad_gelu(CpuKernels::Context& context, const OpRun& run) {
  run_linear_input_grad(context, run);
  context.vector.gelu_grad(run.floats(2), run.out_floats(), run.out_floats(),
                           run.outputs[0].type.elements());
}

void run_linear_weight_grad_sum(CpuKernels::Context& context, const OpRun& run) {
  run_linear_weight_grad(context, run);
  const std::int64_t columns = run.outputs[1].type.elements();
  context.vector.sum_rows(run.floats(1), run.size(1) / columns, columns, run.out_floats(1),
                          run.accumulate[1]);
}

}  // namespace

const CpuOpKernel kLinearKernel{run_linear};
const CpuOpKernel kLinearInputGradKernel{.run = run_linear_input_grad, .accumulates = true};
const CpuOpKernel kLinearWeightGradKernel{.run = run_linear_weight_grad, .accumulates = true};
const CpuOpKernel kLinearGeluKernel{run_linear_gelu};
const CpuOpKernel kLinearAddKernel{run_linear_add};
const CpuOpKernel kLinearInputGradGeluKernel{run_linear_input_grad_gelu};
const CpuOpKernel kLinearWeightGradSumKernel{.run = run_linear_weight_grad_sum,
                                             .accumulates = true};

}  // namespace weft
