// Layer norm and group norm; allocates the work space of their kernels.
#include "core/cuda/internal/op_run.h"

namespace weft::cuda {
namespace {

float epsilon_of(const OpRun& run) { return static_cast<float>(run.op.real("epsilon")); }

void run_layer_norm(Backend& backend, const OpRun& run) {
  layer_norm(backend.stream(), run.type(0), run.in(0), run.in(1), run.in(2), run.out(), run.rows(0),
             run.columns(0), epsilon_of(run));
}

/// Returns outputs `first` and `first` + 1.
WeightGradients weight_gradients(const OpRun& run, std::size_t first = 0) {
  return {run.out_floats(first), run.out_floats(first + 1), run.accumulate[first],
          run.accumulate[first + 1]};
}

void queue_layer_norm_grad(Backend& backend, const OpRun& run, const LayerNormGrad& grad) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  float* const workspace =
      grad.weights.gamma == nullptr
          ? nullptr
          : backend.allocate_of<float>(layer_norm_grad_workspace(run.type(0), rows, columns));
  layer_norm_grad(backend.stream(), run.type(0), grad, rows, columns, epsilon_of(run),
                  backend.shared_memory(), workspace);
}

/// Returns the tensors of dx, to which input 3 is added if the op has one.
LayerNormGrad input_gradient(Backend& backend, const OpRun& run) {
  LayerNormGrad grad{.x = run.in(0), .dy = run.in(2), .gamma = run.in(1), .dx = run.out()};
  if (run.inputs.size() == 4) grad.addend = run.in(3);
  if (!run.accumulate[0]) return grad;
  if (grad.addend != nullptr) {
    launch_elementwise(backend.stream(), OpKind::kAdd, DType::kF32, grad.dx, grad.addend, grad.dx,
                       run.size(0), 0, false);
  }
  grad.addend = grad.dx;
  return grad;
}

void run_layer_norm_input_grad(Backend& backend, const OpRun& run) {
  queue_layer_norm_grad(backend, run, input_gradient(backend, run));
}

void run_layer_norm_weight_grad(Backend& backend, const OpRun& run) {
  queue_layer_norm_grad(backend, run,
                        {.x = run.in(0), .dy = run.in(1), .weights = weight_gradients(run)});
}

void run_layer_norm_grad(Backend& backend, const OpRun& run) {
  LayerNormGrad grad = input_gradient(backend, run);
  grad.weights = weight_gradients(run, 1);
  queue_layer_norm_grad(backend, run, grad);
}

// Layer norm with rows split over devices: core/ops/split_layer_norm.cc.

void run_row_moments(Backend& backend, const OpRun& run) {
  const std::int64_t width = run.op.integer("slice_width");
  layer_norm_moments(backend.stream(), run.type(0), run.in(0), run.out_floats(),
                     run.size(0) / width, width);
}

void run_row_statistics(Backend& backend, const OpRun& run) {
  const std::int64_t slices = run.shape(0)[run.shape(0).size() - 2];
  layer_norm_statistics(backend.stream(), run.floats(0), run.out_floats(),
                        run.size(0) / (2 * slices), slices, run.op.integer("slice_width"),
                        run.op.real("epsilon"));
}

void run_row_apply(Backend& backend, const OpRun& run) {
  layer_norm_apply(backend.stream(), run.type(0), run.in(0), run.floats(1), run.in(2), run.in(3),
                   run.out(), run.rows(0), run.columns(0));
}

void run_row_gradient_sums(Backend& backend, const OpRun& run) {
  layer_norm_gradient_sums(backend.stream(), run.type(0), run.in(0), run.floats(1), run.in(2),
                           run.in(3), run.out_floats(), run.rows(0), run.columns(0));
}

void run_row_apply_input_grad(Backend& backend, const OpRun& run) {
  layer_norm_apply_input_grad(backend.stream(), run.type(0), run.in(0), run.floats(1), run.in(2),
                              run.in(3), run.floats(4), run.out(), run.rows(0), run.columns(0),
                              run.op.integer("width"));
}

void run_row_apply_weight_grad(Backend& backend, const OpRun& run) {
  const std::int64_t rows = run.rows(0), columns = run.columns(0);
  layer_norm_apply_weight_grad(
      backend.stream(), run.type(0), run.in(0), run.floats(1), run.in(2), weight_gradients(run),
      rows, columns, backend.allocate_of<float>(column_sums_workspace(1, rows, columns, 2)));
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
const OpKernel kLayerNormInputGradKernel{.run = run_layer_norm_input_grad, .accumulates = true};
const OpKernel kLayerNormInputGradAddKernel{.run = run_layer_norm_input_grad, .accumulates = true};
const OpKernel kLayerNormGradKernel{.run = run_layer_norm_grad, .accumulates = true};
const OpKernel kLayerNormGradAddKernel{.run = run_layer_norm_grad, .accumulates = true};
const OpKernel kLayerNormWeightGradKernel{.run = run_layer_norm_weight_grad, .accumulates = true};
const OpKernel kLayerNormMomentsKernel{run_row_moments};
const OpKernel kLayerNormStatisticsKernel{run_row_statistics};
const OpKernel kLayerNormApplyKernel{run_row_apply};
const OpKernel kLayerNormGradientSumsKernel{run_row_gradient_sums};
const OpKernel kLayerNormApplyInputGradKernel{run_row_apply_input_grad};
const OpKernel kLayerNormApplyWeightGradKernel{.run = run_row_apply_weight_grad,
                                               .accumulates = true};
const OpKernel kGroupNormKernel{run_group_norm};
const OpKernel kGroupNormInputGradKernel{run_group_norm_input_grad};
const OpKernel kGroupNormWeightGradKernel{.run = run_group_norm_weight_grad, .accumulates = true};

}  // namespace weft::cuda
