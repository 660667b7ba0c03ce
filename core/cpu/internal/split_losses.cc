// Gradient of a linear's input through a cross-entropy with rows split over devices:
// core/ops/split_cross_entropy_input_grad.cc.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

void run_numerators(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  const std::int64_t width = run.op.integer("slice_width"), first = run.op.integer("first");
  const float *x = run.floats(0), *moments = run.floats(1);
  float* out = run.out_floats();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; c += width, x += width, out += width, moments += 3) {
      const std::int64_t real =
          std::clamp<std::int64_t>(run.op.integer("columns") - first - c, 0, width);
      if (real > 0) context.vector.scaled_exp(x, out, real, moments[0], 1.0f);
      std::fill(out + real, out + width, 0.0f);
    }
  }
}

void run_slice_input_grad(CpuKernels::Context&, const OpRun& run) {
  const bool transposed = run.op.integer("transposed") != 0;
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  const std::int64_t width = run.shape(1)[transposed ? 1 : 0];
  const std::int64_t slice = run.op.integer("slice_width"), slices = columns / slice;
  const std::int64_t weight_row = transposed ? width : columns;
  for (std::int64_t k = 0; k < slices; ++k) {
    const float* const w = run.floats(1) + k * slice * (transposed ? width : 1);
    gemm(Transpose::kNo, transposed ? Transpose::kNo : Transpose::kYes, rows, width, slice,
         run.floats(0) + k * slice, columns, w, weight_row, 0, run.out_floats() + k * width,
         slices * width);
  }
}

void run_target_rows(CpuKernels::Context&, const OpRun& run) {
  const bool transposed = run.op.integer("transposed") != 0;
  const std::int64_t columns = run.op.integer("count"), width = run.size(0) / columns;
  const std::int64_t slice = run.op.integer("slice_width"), slices = columns / slice;
  const std::int64_t known = run.op.integer("columns"), first = run.op.integer("first");
  const std::int64_t column = transposed ? width : 1, step = transposed ? 1 : columns;
  float* out = run.out_floats();
  std::memset(out, 0, run.outputs[0].type.bytes());
  for (std::int64_t t = 0; t < run.size(1); ++t, out += slices * width) {
    const std::int32_t target = run.ids(1)[t];
    if (target < 0 || target >= known)
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: the target {} at position {} is outside the {} logits", to_string(run.op),
                  target, t, known);
    const std::int64_t here = target - first;
    if (here < 0 || here >= columns) continue;
    const float* const w = run.floats(0) + here * column;
    float* const row = out + here / slice * width;
    for (std::int64_t c = 0; c < width; ++c) row[c] = w[c * step];
  }
}

void run_combined(CpuKernels::Context&, const OpRun& run) {
  const Shape& shape = run.shape(3);
  const std::int64_t slices = shape[shape.size() - 2], width = shape.back();
  const auto scale = static_cast<float>(run.op.real("scale"));
  const float *moments = run.floats(0), *statistics = run.floats(1);
  const float *products = run.floats(2), *targets = run.floats(3);
  const float* const weights = run.inputs.size() == 5 ? run.floats(4) : nullptr;
  float* out = run.out_floats();
  const std::int64_t rows = run.size(1) / 3;
  for (std::int64_t r = 0; r < rows; ++r, out += width, statistics += 3) {
    const float row_scale = weights == nullptr ? scale : scale * weights[r];
    std::fill(out, out + width, 0.0f);
    for (std::int64_t k = 0; k < slices; ++k, moments += 3, products += width, targets += width) {
      const float share = std::exp(moments[0] - statistics[0]) / statistics[1];
      for (std::int64_t c = 0; c < width; ++c)
        out[c] += row_scale * (share * products[c] - targets[c]);
    }
  }
}

}  // namespace

const CpuOpKernel kCrossEntropyNumeratorsKernel{run_numerators};
const CpuOpKernel kLinearSliceInputGradKernel{run_slice_input_grad};
const CpuOpKernel kTargetRowsKernel{run_target_rows};
const CpuOpKernel kCrossEntropyCombinedInputGradKernel{run_combined};

}  // namespace weft
