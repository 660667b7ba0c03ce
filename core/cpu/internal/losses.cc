// Cross entropy and its gradient, row by row: a row of logits is in the first-level cache for all
// of its passes. Squared error and its gradient.
#include "core/base/error.h"
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

void check_targets(const OpRun& run, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int32_t target = run.ids(1)[r];
    if (target >= 0 && target < columns) continue;
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the target {} at position {} is outside the {} logits", to_string(run.op),
                target, r, columns);
  }
}

/// Null where all are 1.
const float* weights(const OpRun& run) { return run.inputs.size() == 3 ? run.floats(2) : nullptr; }

void run_cross_entropy(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  check_targets(run, rows, columns);
  const double sum =
      context.vector.cross_entropy(run.floats(0), run.ids(1), weights(run), rows, columns);
  const double loss = run.op.real("scale") * sum;
  *run.out_floats() = static_cast<float>(loss) + (run.accumulate[0] ? *run.out_floats() : 0.0f);
}

void run_cross_entropy_grad(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  check_targets(run, rows, columns);
  const float scale = static_cast<float>(run.op.real("scale"));
  context.vector.cross_entropy_grad(run.floats(0), run.ids(1), weights(run), run.out_floats(), rows,
                                    columns, scale);
}

void run_squared_error(CpuKernels::Context& context, const OpRun& run) {
  const double sum = context.vector.squared_error(run.floats(0), run.floats(1), run.size(0));
  *run.out_floats() = static_cast<float>(run.op.real("scale") * sum);
}

void run_squared_error_grad(CpuKernels::Context& context, const OpRun& run) {
  context.vector.scaled_difference(run.floats(0), run.floats(1), run.out_floats(), run.size(0),
                                   static_cast<float>(2 * run.op.real("scale")));
}

}  // namespace

const CpuOpKernel kCrossEntropyKernel{.run = run_cross_entropy, .accumulates = true};
const CpuOpKernel kCrossEntropyGradKernel{run_cross_entropy_grad};
const CpuOpKernel kSquaredErrorKernel{run_squared_error};
const CpuOpKernel kSquaredErrorGradKernel{run_squared_error_grad};

}  // namespace weft
