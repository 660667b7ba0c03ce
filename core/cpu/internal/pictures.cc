// Ops on channels-last pictures that loop over rows: up-sampling per row of pixels, concat and
// slice per pixel, sums over positions per sample. See core/ops for their definitions.
#include <cstring>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

std::size_t bytes(std::int64_t floats) { return floats * sizeof(float); }

void run_upsample(CpuKernels::Context&, const OpRun& run) {
  const Shape& x = run.shape(0);
  const std::int64_t factor = run.op.integer("factor"), width = x[2], channels = x[3],
                     row = factor * width * channels;
  const float* from = run.floats(0);
  float* to = run.out_floats();
  for (std::int64_t i = 0; i < x[0] * x[1]; ++i, from += width * channels, to += factor * row) {
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t q = 0; q < factor; ++q)
        std::memcpy(to + (j * factor + q) * channels, from + j * channels, bytes(channels));
    }
    for (std::int64_t p = 1; p < factor; ++p) std::memcpy(to + p * row, to, bytes(row));
  }
}

void run_upsample_grad(CpuKernels::Context& context, const OpRun& run) {
  const Shape& dx = run.outputs[0].type.shape;
  const std::int64_t factor = run.op.integer("factor"), width = dx[2], channels = dx[3],
                     row = factor * width * channels;
  for (std::int64_t i = 0; i < dx[0] * dx[1]; ++i) {
    context.vector.sum_pixel_blocks(run.floats(0) + i * factor * row, row,
                                    run.out_floats() + i * width * channels, width, channels,
                                    factor);
  }
}

void run_concat(CpuKernels::Context&, const OpRun& run) {
  float* to = run.out_floats();
  for (std::int64_t r = 0; r < run.rows(0); ++r) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      const std::int64_t columns = run.columns(i);
      std::memcpy(to, run.floats(i) + r * columns, bytes(columns));
      to += columns;
    }
  }
}

void run_slice(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t dim = run.op.integer("dim"), stride = run.stride(0, dim);
  const std::int64_t columns = run.shape(0)[dim] * stride, rows = run.size(0) / columns;
  const std::int64_t begin = run.op.integer("begin") * stride,
                     size = run.op.integer("size") * stride;
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(run.out_floats() + r * size, run.floats(0) + r * columns + begin, bytes(size));
}

void run_add_channels(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.columns(0),
                     rows = run.rows(0) / batch;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t offset = b * rows * channels;
    context.vector.add_row(run.floats(0) + offset, run.floats(1) + b * channels,
                           run.out_floats() + offset, rows, channels);
  }
}

void run_sum_positions(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.columns(0),
                     rows = run.rows(0) / batch;
  for (std::int64_t b = 0; b < batch; ++b) {
    context.vector.sum_rows(run.floats(0) + b * rows * channels, rows, channels,
                            run.out_floats() + b * channels, run.accumulate[0]);
  }
}

}  // namespace

const CpuOpKernel kUpsampleKernel{run_upsample};
const CpuOpKernel kUpsampleGradKernel{run_upsample_grad};
const CpuOpKernel kConcatKernel{run_concat};
const CpuOpKernel kSliceKernel{run_slice};
const CpuOpKernel kAddChannelsKernel{run_add_channels};
const CpuOpKernel kSumPositionsKernel{.run = run_sum_positions, .accumulates = true};

}  // namespace weft
