// Layer norm, row by row, and group norm, sample by sample. Parameter gradients are added to the
// outputs.
#include <cmath>
#include <cstring>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

float epsilon(const OpRun& run) { return static_cast<float>(run.op.real("epsilon")); }

/// Zeroes dgamma and dbeta, outputs `first` and `first` + 1, to which kernels add, unless the op
/// accumulates.
void zero_unless_accumulated(const OpRun& run, std::size_t first = 0) {
  for (std::size_t i = first; i < first + 2; ++i) {
    if (!run.accumulate[i]) std::memset(run.out(i), 0, run.outputs[i].type.bytes());
  }
}

void run_layer_norm(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm(run.floats(0), run.floats(1), run.floats(2), run.out_floats(),
                            run.rows(0), run.columns(0), epsilon(run));
}

/// Computes dx, plus input 3 if the op has one.
void run_layer_norm_input_grad(CpuKernels::Context& context, const OpRun& run) {
  const auto add = [&](float* to, const float* from) {
    context.vector.add_row(to, from, to, 1, run.size(0));
  };
  float* const dx = run.accumulate[0] ? context.workspace.floats(run.size(0)) : run.out_floats();
  context.vector.layer_norm_input_grad(run.floats(0), run.floats(1), run.floats(2), dx, run.rows(0),
                                       run.columns(0), epsilon(run));
  if (run.inputs.size() == 4) add(dx, run.floats(3));
  if (run.accumulate[0]) add(run.out_floats(), dx);
}

void run_layer_norm_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  zero_unless_accumulated(run);
  context.vector.layer_norm_weight_grad(run.floats(0), run.floats(1), run.out_floats(0),
                                        run.out_floats(1), run.rows(0), run.columns(0),
                                        epsilon(run));
}

/// Computes dgamma and dbeta before dx, which may be dy's memory.
void run_layer_norm_grad(CpuKernels::Context& context, const OpRun& run) {
  zero_unless_accumulated(run, 1);
  context.vector.layer_norm_weight_grad(run.floats(0), run.floats(2), run.out_floats(1),
                                        run.out_floats(2), run.rows(0), run.columns(0),
                                        epsilon(run));
  run_layer_norm_input_grad(context, run);
}

// Layer norm with rows split over devices: core/ops/split_layer_norm.cc.

void run_row_moments(CpuKernels::Context& context, const OpRun& run) {
  const std::int64_t width = run.op.integer("slice_width");
  context.vector.layer_norm_moments(run.floats(0), run.out_floats(), run.size(0) / width, width);
}

/// Computes in double, which is cheap for a few numbers per row.
void run_row_statistics(CpuKernels::Context&, const OpRun& run) {
  const double width = static_cast<double>(run.op.integer("slice_width"));
  const double epsilon = run.op.real("epsilon");
  const std::int64_t slices = run.shape(0)[run.shape(0).size() - 2];
  const std::int64_t rows = run.size(0) / (2 * slices);
  const float* moments = run.floats(0);
  float* out = run.out_floats();
  for (std::int64_t r = 0; r < rows; ++r, moments += 2 * slices, out += 2) {
    double count = width, mean = moments[0], squares = moments[1];
    for (std::int64_t i = 1; i < slices; ++i) {
      const double difference = moments[2 * i] - mean;
      const double all = count + width;
      mean += difference * width / all;
      squares += moments[2 * i + 1] + difference * difference * count * width / all;
      count = all;
    }
    out[0] = static_cast<float>(mean);
    out[1] = static_cast<float>(1 / std::sqrt(squares / count + epsilon));
  }
}

void run_row_apply(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm_apply(run.floats(0), run.floats(1), run.floats(2), run.floats(3),
                                  run.out_floats(), run.rows(0), run.columns(0));
}

void run_row_gradient_sums(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm_gradient_sums(run.floats(0), run.floats(1), run.floats(2),
                                          run.floats(3), run.out_floats(), run.rows(0),
                                          run.columns(0));
}

void run_row_apply_input_grad(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm_apply_input_grad(run.floats(0), run.floats(1), run.floats(2),
                                             run.floats(3), run.floats(4), run.out_floats(),
                                             run.rows(0), run.columns(0), run.op.integer("width"));
}

void run_row_apply_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  zero_unless_accumulated(run);
  context.vector.layer_norm_apply_weight_grad(run.floats(0), run.floats(1), run.floats(2),
                                              run.out_floats(0), run.out_floats(1), run.rows(0),
                                              run.columns(0));
}

/// Calls body(sample, offset of the sample's first element) for each sample of input 0.
template <typename Body>
void for_samples(CpuKernels::Context& context, const OpRun& run, Body body) {
  const Shape& x = run.shape(0);
  GroupNormSample sample{};
  sample.channels = x.back();
  sample.positions = run.size(0) / (x.front() * x.back());
  sample.group_size = run.op.integer("group_size");
  sample.epsilon = epsilon(run);
  sample.workspace = context.workspace.floats(kGroupNormWorkspaceRows * sample.channels);
  for (std::int64_t b = 0; b < x.front(); ++b) {
    const std::int64_t offset = b * sample.positions * sample.channels;
    sample.x = run.floats(0) + offset;
    body(sample, offset);
  }
}

void run_group_norm(CpuKernels::Context& context, const OpRun& run) {
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm(sample, run.floats(1), run.floats(2), run.out_floats() + offset);
  });
}

void run_group_norm_input_grad(CpuKernels::Context& context, const OpRun& run) {
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm_input_grad(sample, run.floats(1), run.floats(2) + offset,
                                         run.out_floats() + offset);
  });
}

void run_group_norm_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  zero_unless_accumulated(run);
  for_samples(context, run, [&](const GroupNormSample& sample, std::int64_t offset) {
    context.vector.group_norm_weight_grad(sample, run.floats(1) + offset, run.out_floats(0),
                                          run.out_floats(1));
  });
}

}  // namespace

const CpuOpKernel kLayerNormKernel{run_layer_norm};
const CpuOpKernel kLayerNormInputGradKernel{run_layer_norm_input_grad};
const CpuOpKernel kLayerNormInputGradAddKernel{run_layer_norm_input_grad};
const CpuOpKernel kLayerNormGradKernel{.run = run_layer_norm_grad, .accumulates = true};
const CpuOpKernel kLayerNormGradAddKernel{.run = run_layer_norm_grad, .accumulates = true};
const CpuOpKernel kLayerNormWeightGradKernel{.run = run_layer_norm_weight_grad,
                                             .accumulates = true};
const CpuOpKernel kLayerNormMomentsKernel{run_row_moments};
const CpuOpKernel kLayerNormStatisticsKernel{run_row_statistics};
const CpuOpKernel kLayerNormApplyKernel{run_row_apply};
const CpuOpKernel kLayerNormGradientSumsKernel{run_row_gradient_sums};
const CpuOpKernel kLayerNormApplyInputGradKernel{run_row_apply_input_grad};
const CpuOpKernel kLayerNormApplyWeightGradKernel{.run = run_row_apply_weight_grad,
                                                  .accumulates = true};
const CpuOpKernel kGroupNormKernel{run_group_norm};
const CpuOpKernel kGroupNormInputGradKernel{run_group_norm_input_grad};
const CpuOpKernel kGroupNormWeightGradKernel{.run = run_group_norm_weight_grad,
                                             .accumulates = true};

}  // namespace weft
