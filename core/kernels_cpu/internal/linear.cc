// linear and its gradients as matrix products; see core/ops/linear.cc for what they compute. All dimensions
// before the last of x are rows (M), K is x's last, and all dimensions of w after its first are columns (N).
#include "core/kernels_cpu/internal/op_kernels.h"

namespace weft {

void run_linear(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t m = run.rows(0), k = run.shape(1)[0], n = run.inputs[1].type.elements() / k;
  if (run.inputs.size() == 3) {
    context.biased_matmul.run(m, n, k, run.in(0), run.in(1), run.in(2), run.out());
  } else {
    gemm(Transpose::kNo, Transpose::kNo, m, n, k, run.in(0), k, run.in(1), n, 0, run.out(), n);
  }
}

void run_linear_input_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t k = run.shape(1)[0], n = run.inputs[1].type.elements() / k, m = run.inputs[0].type.elements() / n;
  gemm(Transpose::kNo, Transpose::kYes, m, k, n, run.in(0), n, run.in(1), n, run.accumulate[0] ? 1 : 0, run.out(), k);
}

void run_linear_weight_grad(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t m = run.rows(0), k = run.shape(0).back(), n = run.inputs[1].type.elements() / m;
  gemm(Transpose::kYes, Transpose::kNo, k, n, m, run.in(0), k, run.in(1), n, run.accumulate[0] ? 1 : 0, run.out(), n);
}

}  // namespace weft
