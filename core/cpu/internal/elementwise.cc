// Element-wise ops: sums, products, activations and their gradients, conversions.
#include <cstring>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

void run_add(CpuKernels::Context& context, const OpRun& run) {
  context.vector.add_row(run.floats(0), run.floats(1), run.out_floats(), run.size(0) / run.size(1),
                         run.size(1));
}

void run_sum_leading(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t columns = run.outputs[0].type.elements();
  context.vector.sum_rows(run.floats(0), run.size(0) / columns, columns, run.out_floats(),
                          run.accumulate[0]);
}

/// Computes y[i] = f(x[i]).
template <auto F>
void run_unary(CpuKernels::Context& context, const OpRun& run) {
  (context.vector.*F)(run.floats(0), run.out_floats(), run.size(0));
}

/// Computes y[i] = f(a[i], b[i]).
template <auto F>
void run_binary(CpuKernels::Context& context, const OpRun& run) {
  (context.vector.*F)(run.floats(0), run.floats(1), run.out_floats(), run.size(0));
}

/// Copies: the kernel's tensors are f32, as Float32Copies replaces bf16 tensors by f32 copies.
void run_convert(CpuKernels::Context&, const OpRun& run) {
  std::memcpy(run.out(), run.in(0), run.outputs[0].type.bytes());
}

}  // namespace

const CpuOpKernel kAddKernel{run_add};
const CpuOpKernel kSumLeadingKernel{.run = run_sum_leading, .accumulates = true};
const CpuOpKernel kMultiplyKernel{run_binary<&VectorKernels::multiply>};
const CpuOpKernel kGeluKernel{run_unary<&VectorKernels::gelu>};
const CpuOpKernel kGeluGradKernel{run_binary<&VectorKernels::gelu_grad>};
const CpuOpKernel kSiluKernel{run_unary<&VectorKernels::silu>};
const CpuOpKernel kSiluGradKernel{run_binary<&VectorKernels::silu_grad>};
const CpuOpKernel kSigmoidKernel{run_unary<&VectorKernels::sigmoid>};
const CpuOpKernel kSigmoidGradKernel{run_binary<&VectorKernels::sigmoid_grad>};
const CpuOpKernel kToBF16Kernel{run_convert};
const CpuOpKernel kToF32Kernel{run_convert};

}  // namespace weft
