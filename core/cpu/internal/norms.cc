// Layer norm, row by row, and group norm, sample by sample. Gradients of the parameters are added
// to what is there.
#include <cstring>

#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

float epsilon(const OpRun& run) { return static_cast<float>(run.op.real("epsilon")); }

/// dgamma and dbeta, before they are added to.
void zero_unless_accumulated(const OpRun& run) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!run.accumulate[i]) std::memset(run.out(i), 0, run.outputs[i].type.bytes());
  }
}

void run_layer_norm(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm(run.floats(0), run.floats(1), run.floats(2), run.out_floats(),
                            run.rows(0), run.columns(0), epsilon(run));
}

void run_layer_norm_input_grad(CpuKernels::Context& context, const OpRun& run) {
  context.vector.layer_norm_input_grad(run.floats(0), run.floats(1), run.floats(2),
                                       run.out_floats(), run.rows(0), run.columns(0), epsilon(run));
}

void run_layer_norm_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  zero_unless_accumulated(run);
  context.vector.layer_norm_weight_grad(run.floats(0), run.floats(1), run.out_floats(0),
                                        run.out_floats(1), run.rows(0), run.columns(0),
                                        epsilon(run));
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
  sample.workspace = context.workspace.floats(kGroupNormRows * sample.channels);
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
const CpuOpKernel kLayerNormWeightGradKernel{.run = run_layer_norm_weight_grad,
                                             .accumulates = true};
const CpuOpKernel kGroupNormKernel{run_group_norm};
const CpuOpKernel kGroupNormInputGradKernel{run_group_norm_input_grad};
const CpuOpKernel kGroupNormWeightGradKernel{.run = run_group_norm_weight_grad,
                                             .accumulates = true};

}  // namespace weft
