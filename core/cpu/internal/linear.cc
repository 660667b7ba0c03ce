// linear and its gradients as matrix products; see core/ops/linear.cc for what they compute. All
// dimensions before the last of x are rows (M), K is x's last, and all dimensions of w after its
// first are columns (N).
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

/// y = x w (+ bias) of the op's first inputs.
void multiply(CpuKernels::Context& context, const OpRun& run, const float* bias, float* y) {
  const std::int64_t m = run.rows(0), k = run.shape(1)[0], n = run.inputs[1].type.elements() / k;
  if (bias != nullptr) {
    context.biased_matmul.run(m, n, k, run.in(0), run.in(1), bias, y);
  } else {
    gemm(Transpose::kNo, Transpose::kNo, m, n, k, run.in(0), k, run.in(1), n, 0, y, n);
  }
}

}  // namespace

void run_linear(CpuKernels::Context& context, const OpRun& run) {
  multiply(context, run, run.inputs.size() == 3 ? run.in(2) : nullptr, run.out());
}

void run_linear_input_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t k = run.shape(1)[0], n = run.inputs[1].type.elements() / k,
                     m = run.inputs[0].type.elements() / n;
  gemm(Transpose::kNo, Transpose::kYes, m, k, n, run.in(0), n, run.in(1), n,
       run.accumulate[0] ? 1 : 0, run.out(), k);
}

void run_linear_weight_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t m = run.rows(0), k = run.shape(0).back(),
                     n = run.inputs[1].type.elements() / m;
  gemm(Transpose::kYes, Transpose::kNo, k, n, m, run.in(0), k, run.in(1), n,
       run.accumulate[0] ? 1 : 0, run.out(), n);
}

// The ops of linear_fused.cc: the two that each stands for, one after the other, so that results
// are those of the two bit for bit.

void run_linear_gelu(CpuKernels::Context& context, const OpRun& run) {
  float* const h = run.outputs.size() == 2 ? run.out(1) : run.out(0);
  multiply(context, run, run.in(2), h);
  context.vector.gelu(h, run.out(), run.outputs[0].type.elements());
}

void run_linear_add(CpuKernels::Context& context, const OpRun& run) {
  multiply(context, run, run.inputs.size() == 4 ? run.in(3) : nullptr, run.out());
  context.vector.add_row(run.out(), run.in(2), run.out(), 1, run.outputs[0].type.elements());
}

void run_linear_input_grad_gelu(CpuKernels::Context& context, const OpRun& run) {
  run_linear_input_grad(context, run);
  context.vector.gelu_grad(run.in(2), run.out(), run.out(), run.outputs[0].type.elements());
}

void run_linear_weight_grad_sum(CpuKernels::Context& context, const OpRun& run) {
  run_linear_weight_grad(context, run);
  const std::int64_t columns = run.outputs[1].type.elements();
  context.vector.sum_rows(run.in(1), run.inputs[1].type.elements() / columns, columns, run.out(1),
                          run.accumulate[1]);
}

}  // namespace weft
