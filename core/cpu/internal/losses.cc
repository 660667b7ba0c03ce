// Cross entropy and its gradient, row by row, so that a row of logits stays in the L1 cache during
// all passes. Squared error and its gradient.
#include <algorithm>
#include <cmath>
#include <limits>

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

/// Returns input i of the op if it exists; null means that all weights are 1.
const float* weights(const OpRun& run, std::size_t i = 2) {
  return run.inputs.size() == i + 1 ? run.floats(i) : nullptr;
}

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
  context.vector.cross_entropy_with_grad(run.floats(0), run.ids(1), weights(run), run.out_floats(),
                                         rows, columns, scale);
}

void run_cross_entropy_with_grad(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  check_targets(run, rows, columns);
  const double scale = run.op.real("scale");
  const double sum = context.vector.cross_entropy_with_grad(run.floats(0), run.ids(1), weights(run),
                                                            run.out_floats(0), rows, columns,
                                                            static_cast<float>(scale));
  *run.out_floats(1) = static_cast<float>(scale * sum);
}

// Cross entropy with rows split over devices: core/ops/split_cross_entropy.cc.

/// Returns the number of columns in [first, first + count) that are not padding.
std::int64_t real_columns(const OpRun& run, std::int64_t first, std::int64_t count) {
  return std::clamp<std::int64_t>(run.op.integer("columns") - first, 0, count);
}

void run_logit_moments(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  const std::int64_t width = run.op.integer("slice_width"), first = run.op.integer("first");
  check_targets(run, rows, run.op.integer("columns"));
  const float* x = run.floats(0);
  float* out = run.out_floats();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; c += width, x += width, out += 3) {
      const std::int64_t real = real_columns(run, first + c, width);
      if (real > 0) {
        context.vector.slice_maximum_and_sum(x, real, out);
      } else {
        out[0] = -std::numeric_limits<float>::infinity();
        out[1] = 0;
      }
      const std::int64_t target = run.ids(1)[r] - first - c;
      out[2] = target >= 0 && target < width ? x[target] : 0;
    }
  }
}

/// Computes in double, which is cheap for a few numbers per row.
void run_logit_statistics(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t slices = run.shape(0)[run.shape(0).size() - 2];
  const std::int64_t rows = run.size(0) / (3 * slices);
  const float* moments = run.floats(0);
  float* out = run.out_floats();
  for (std::int64_t r = 0; r < rows; ++r, moments += 3 * slices, out += 3) {
    double top = moments[0], sum = 0, target = 0;
    for (std::int64_t i = 1; i < slices; ++i) top = std::max<double>(top, moments[3 * i]);
    for (std::int64_t i = 0; i < slices; ++i) {
      sum += moments[3 * i + 1] * std::exp(moments[3 * i] - top);
      target += moments[3 * i + 2];
    }
    out[0] = static_cast<float>(top);
    out[1] = static_cast<float>(sum);
    out[2] = static_cast<float>(target);
  }
}

void run_logit_of_statistics(CpuKernels::Context&, const OpRun& run) {
  const float *statistics = run.floats(0), *weight = weights(run, 1);
  double sum = 0;
  for (std::int64_t r = 0; r < run.rows(0); ++r, statistics += 3) {
    const double loss = static_cast<double>(statistics[0]) - statistics[2] +
                        std::log(static_cast<double>(statistics[1]));
    sum += weight == nullptr ? loss : weight[r] * loss;
  }
  *run.out_floats() = static_cast<float>(run.op.real("scale") * sum);
}

void run_logit_apply_grad(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0), first = run.op.integer("first");
  check_targets(run, rows, run.op.integer("columns"));
  const std::int64_t real = real_columns(run, first, columns);
  const float scale = static_cast<float>(run.op.real("scale"));
  const float *x = run.floats(0), *weight = weights(run, 3);
  float* dx = run.out_floats();
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dx += columns) {
    const float row_scale = weight == nullptr ? scale : scale * weight[r];
    const float* statistics = run.floats(2) + 3 * r;
    context.vector.scaled_exp(x, dx, real, statistics[0], row_scale / statistics[1]);
    std::fill(dx + real, dx + columns, 0.0f);
    const std::int64_t target = run.ids(1)[r] - first;
    if (target >= 0 && target < columns) dx[target] -= row_scale;
  }
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
const CpuOpKernel kCrossEntropyWithGradKernel{run_cross_entropy_with_grad};
const CpuOpKernel kCrossEntropyMomentsKernel{run_logit_moments};
const CpuOpKernel kCrossEntropyStatisticsKernel{run_logit_statistics};
const CpuOpKernel kCrossEntropyOfStatisticsKernel{run_logit_of_statistics};
const CpuOpKernel kCrossEntropyApplyGradKernel{run_logit_apply_grad};
const CpuOpKernel kSquaredErrorKernel{run_squared_error};
const CpuOpKernel kSquaredErrorGradKernel{run_squared_error_grad};

}  // namespace weft
