// Ops on pictures with channels last that are loops around one row: group norm by sample,
// up-sampling by row of pixels, concat and slice by pixel, sums over positions by sample. See
// core/ops for what each computes.
#include <cstring>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

/// Calls body(sample, offset of the sample's first element) for each sample of input 0.
template <typename Body>
void for_samples(CpuKernels::Context& context, const OpRun& run, Body body) {
  const Shape& x = run.shape(0);
  GroupNormSample sample{};
  sample.channels = x.back();
  sample.positions = run.inputs[0].type.elements() / (x.front() * x.back());
  sample.group_size = run.op.integer("group_size");
  sample.epsilon = static_cast<float>(run.op.real("epsilon"));
  sample.workspace =
      context.workspace.floats(static_cast<std::size_t>(kGroupNormRows * sample.channels));
  for (std::int64_t b = 0; b < x.front(); ++b) {
    const std::int64_t offset = b * sample.positions * sample.channels;
    sample.x = run.in(0) + offset;
    body(sample, offset);
  }
}

}  // namespace

void run_group_norm(CpuKernels::Context& context, const OpRun& run) {
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm(sample, run.in(1), run.in(2), run.out() + offset);
  });
}

void run_group_norm_input_grad(CpuKernels::Context& context, const OpRun& run) {
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm_input_grad(sample, run.in(1), run.in(2) + offset, run.out() + offset);
  });
}

void run_group_norm_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!run.accumulate[i]) std::memset(run.out(i), 0, bytes(run.shape(0).back()));
  }
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm_weight_grad(sample, run.in(1) + offset, run.out(0), run.out(1));
  });
}

void run_upsample(CpuKernels::Context&, const OpRun& run) {
  const Shape& x = run.shape(0);
  const std::int64_t factor = run.op.integer("factor"), width = x[2], channels = x[3],
                     row = factor * width * channels;
  const float* from = run.in(0);
  float* to = run.out();
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
    context.vector.sum_squares_of_pixels(run.in(0) + i * factor * row, row,
                                         run.out() + i * width * channels, width, channels, factor);
  }
}

void run_concat(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t a = run.shape(0).back(), b = run.shape(1).back(), rows = run.rows(0);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* to = run.out() + r * (a + b);
    std::memcpy(to, run.in(0) + r * a, bytes(a));
    std::memcpy(to + a, run.in(1) + r * b, bytes(b));
  }
}

void run_slice(CpuKernels::Context&, const OpRun& run) {
  const std::int64_t columns = run.shape(0).back(), begin = run.op.integer("begin"),
                     size = run.op.integer("size");
  const std::int64_t rows = run.rows(0);
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(run.out() + r * size, run.in(0) + r * columns + begin, bytes(size));
}

void run_add_channels(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.shape(0).back(),
                     rows = run.rows(0) / batch;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t offset = b * rows * channels;
    context.vector.add_row(run.in(0) + offset, run.in(1) + b * channels, run.out() + offset, rows,
                           channels);
  }
}

void run_sum_positions(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.shape(0).back(),
                     rows = run.rows(0) / batch;
  for (std::int64_t b = 0; b < batch; ++b) {
    context.vector.sum_rows(run.in(0) + b * rows * channels, rows, channels,
                            run.out() + b * channels, run.accumulate[0]);
  }
}

}  // namespace weft
