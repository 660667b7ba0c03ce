// Layer norm and group norm, with the work space that their kernels take.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

float epsilon_of(const OpRun& run) { return static_cast<float>(run.op.real("epsilon")); }

void run_layer_norm(Backend& backend, const OpRun& run) {
  layer_norm(backend.stream(), run.type(0), run.in(0), run.in(1), run.in(2), run.out(), run.rows(0),
             run.columns(0), epsilon_of(run));
}

void run_layer_norm_input_grad(Backend& backend, const OpRun& run) {
  layer_norm_input_grad(backend.stream(), run.type(0), run.in(0), run.in(1), run.in(2), run.out(),
                        run.rows(0), run.columns(0), epsilon_of(run));
}

void run_layer_norm_weight_grad(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  auto* const workspace =
      backend.allocate_of<float>(2 * rows + column_sums_workspace(1, rows, columns, 2));
  layer_norm_weight_grad(backend.stream(), run.type(0), run.in(0), run.in(1), run.out_floats(0),
                         run.out_floats(1), rows, columns, epsilon_of(run), run.accumulate[0],
                         run.accumulate[1], workspace);
}

GroupNorm group_norm_shape(const OpRun& run) {
  const std::int64_t batch = run.shape(0).front(), channels = run.columns(0);
  return {batch, run.size(0) / (batch * channels), channels, run.op.integer("group_size"),
          epsilon_of(run)};
}

void run_group_norm(Backend& backend, const OpRun& run) {
  const GroupNorm shape = group_norm_shape(run);
  group_norm(backend.stream(), run.type(0), shape, run.in(0), run.in(1), run.in(2), run.out(),
             backend.allocate_of<float>(shape.workspace()));
}

void run_group_norm_input_grad(Backend& backend, const OpRun& run) {
  const GroupNorm shape = group_norm_shape(run);
  group_norm_input_grad(backend.stream(), run.type(0), shape, run.in(0), run.in(1), run.in(2),
                        run.out(), backend.allocate_of<float>(shape.workspace()));
}

void run_group_norm_weight_grad(Backend& backend, const OpRun& run) {
  const GroupNorm shape = group_norm_shape(run);
  group_norm_weight_grad(backend.stream(), run.type(0), shape, run.in(0), run.in(1),
                         run.out_floats(0), run.out_floats(1), run.accumulate[0], run.accumulate[1],
                         backend.allocate_of<float>(shape.workspace()));
}

}  // namespace

const OpKernel kLayerNormKernel{run_layer_norm};
const OpKernel kLayerNormInputGradKernel{run_layer_norm_input_grad};
const OpKernel kLayerNormWeightGradKernel{.run = run_layer_norm_weight_grad, .accumulates = true};
const OpKernel kGroupNormKernel{run_group_norm};
const OpKernel kGroupNormInputGradKernel{run_group_norm_input_grad};
const OpKernel kGroupNormWeightGradKernel{.run = run_group_norm_weight_grad, .accumulates = true};

}  // namespace weft::cuda
