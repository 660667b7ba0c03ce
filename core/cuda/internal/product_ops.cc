// Ops that are matrix products: linear with its gradients, and convolutions that cuDNN does not
// support.
#include <algorithm>

#include "core/cuda/internal/op_run.h"
#include "core/cuda/internal/two_part_product.h"

namespace weft::cuda {
namespace {

/// Limit on the elements of `columns` for one part of the batch; one picture may exceed it.
constexpr std::int64_t kColumnElements = std::int64_t{1} << 27;

ConvolutionShape window_of(const OpRun& run, ConvolutionPass pass) {
  const auto picture = [](const Shape& s) { return PictureShape{s[0], s[1], s[2], s[3]}; };
  ConvolutionShape window;
  window.stride = run.op.integer("stride");
  window.padding = run.op.integer("padding");
  const Shape& y = pass == ConvolutionPass::kForward     ? run.outputs[0].type.shape
                   : pass == ConvolutionPass::kInputGrad ? run.shape(0)
                                                         : run.shape(1);
  const Shape& w = pass == ConvolutionPass::kWeightGrad ? run.outputs[0].type.shape : run.shape(1);
  window.x =
      picture(pass == ConvolutionPass::kInputGrad ? run.outputs[0].type.shape : run.shape(0));
  window.kernel_height = w[0];
  window.kernel_width = w[1];
  window.out_height = y[1];
  window.out_width = y[2];
  return window;
}

/// Computes a convolution as a matrix product: each row has the pixels under the kernel at one
/// position of y. Processes the batch in parts, to limit the work space for the rows.
void convolve_by_product(Backend& backend, const Convolution& c) {
  const ConvolutionShape& whole = c.window;
  const std::int64_t row = whole.kernel_height * whole.kernel_width * whole.x.channels;
  const std::int64_t places = whole.out_height * whole.out_width,
                     picture = whole.x.height * whole.x.width * whole.x.channels;
  const bool pointwise = whole.kernel_height == 1 && whole.kernel_width == 1 && whole.stride == 1 &&
                         whole.padding == 0;
  const std::int64_t part = std::clamp<std::int64_t>(
      kColumnElements / std::max<std::int64_t>(1, places * row), 1, whole.x.batch);
  // Columns of gradients are f32, as an element of dx is the sum of several.
  const DType column_type = c.pass == ConvolutionPass::kInputGrad ? DType::kF32 : c.type;
  void* const columns =
      pointwise ? nullptr : backend.allocate(part * places * row * size_of(column_type));
  for (std::int64_t begin = 0; begin < whole.x.batch; begin += part) {
    ConvolutionShape window = whole;
    window.x.batch = std::min(part, whole.x.batch - begin);
    const std::int64_t rows = window.x.batch * places;
    const void* const dy = advance(c.dy, begin * places * c.out_channels, c.type);
    if (c.pass == ConvolutionPass::kInputGrad) {
      auto* const dx = advance(c.result, begin * picture, c.type);
      backend.multiply({.in = c.type,
                        .out = pointwise ? c.type : column_type,
                        .a = dy,
                        .b = c.w,
                        .c = pointwise ? dx : columns,
                        .m = rows,
                        .n = row,
                        .k = c.out_channels,
                        .transpose_b = true});
      if (!pointwise)
        columns_to_picture(backend.stream(), c.type, static_cast<const float*>(columns), dx,
                           window);
      continue;
    }
    const void* const x = advance(c.x, begin * picture, c.type);
    if (!pointwise) picture_to_columns(backend.stream(), c.type, x, columns, window);
    if (c.pass == ConvolutionPass::kForward) {
      auto* const y = advance(c.result, begin * places * c.out_channels, c.type);
      backend.multiply({.in = c.type,
                        .out = c.type,
                        .a = pointwise ? x : columns,
                        .b = c.w,
                        .bias = c.bias,
                        .c = y,
                        .m = rows,
                        .n = c.out_channels,
                        .k = row,
                        .accumulate = c.accumulate});
    } else {
      backend.multiply({.in = c.type,
                        .out = DType::kF32,
                        .a = pointwise ? x : columns,
                        .b = dy,
                        .c = c.result,
                        .m = row,
                        .n = c.out_channels,
                        .k = rows,
                        .transpose_a = true,
                        .accumulate = c.accumulate || begin > 0});
    }
  }
}

/// Returns the product x w (+ bias) of the op's first inputs.
MatrixProduct linear_product(const OpRun& run, const void* bias) {
  const std::int64_t k = run.columns(0);
  return {.in = run.type(0),
          .out = run.type(0),
          .a = run.in(0),
          .b = run.in(1),
          .bias = bias,
          .c = run.out(),
          .m = run.size(0) / k,
          .n = run.size(1) / k,
          .k = k,
          .accumulate = run.accumulate[0]};
}

MatrixProduct linear_input_grad_product(const OpRun& run) {
  const std::int64_t n = run.shape(1).front(), k = run.size(1) / n;
  return {.in = run.type(0),
          .out = run.type(0),
          .a = run.in(0),
          .b = run.in(1),
          .c = run.out(),
          .m = run.size(0) / k,
          .n = n,
          .k = k,
          .transpose_b = true,
          .accumulate = run.accumulate[0]};
}

MatrixProduct linear_weight_grad_product(const OpRun& run) {
  const std::int64_t m = run.columns(0), k = run.size(0) / m;
  return {.in = run.type(0),
          .out = DType::kF32,
          .a = run.in(0),
          .b = run.in(1),
          .c = run.out(),
          .m = m,
          .n = run.size(1) / k,
          .k = k,
          .transpose_a = true,
          .accumulate = run.accumulate[0]};
}

void run_linear(Backend& backend, const OpRun& run) {
  backend.multiply(linear_product(run, run.inputs.size() == 3 ? run.in(2) : nullptr));
}

void run_linear_input_grad(Backend& backend, const OpRun& run) {
  backend.multiply(linear_input_grad_product(run));
}

void run_linear_weight_grad(Backend& backend, const OpRun& run) {
  backend.multiply(linear_weight_grad_product(run));
}

/// Queues a product with its epilogue: fused, or in two parts if the library does not support that
/// or is slower. f32 tensors use Weft's own GELU, whose tanh has an error of a few roundings; the
/// library's accuracy is not specified.
void multiply_with_epilogue(Backend& backend, const MatrixProduct& product) {
  const bool may_fuse = product.epilogue == Epilogue::kNone || product.in == DType::kBF16;
  if (!may_fuse || !backend.multiply_fused(product)) TwoPartProduct(backend).queue(product);
}

void run_linear_gelu(Backend& backend, const OpRun& run) {
  MatrixProduct product = linear_product(run, run.in(2));
  product.epilogue = Epilogue::kGelu;
  if (run.outputs.size() == 2) product.gelu_input = run.out(1);
  multiply_with_epilogue(backend, product);
}

void run_linear_add(Backend& backend, const OpRun& run) {
  MatrixProduct product = linear_product(run, run.inputs.size() == 4 ? run.in(3) : nullptr);
  product.addend = run.in(2);
  multiply_with_epilogue(backend, product);
}

void run_linear_input_grad_gelu(Backend& backend, const OpRun& run) {
  MatrixProduct product = linear_input_grad_product(run);
  product.epilogue = Epilogue::kGeluGrad;
  product.gelu_input = const_cast<void*>(run.in(2));  // read only
  multiply_with_epilogue(backend, product);
}

void run_linear_weight_grad_sum(Backend& backend, const OpRun& run) {
  MatrixProduct product = linear_weight_grad_product(run);
  // The library overwrites the sums and cannot add to them.
  product.b_row_sums =
      run.accumulate[1] ? backend.allocate_of<float>(product.n) : run.out_floats(1);
  multiply_with_epilogue(backend, product);
  if (!run.accumulate[1]) return;
  launch_elementwise(backend.stream(), OpKind::kAdd, DType::kF32, run.out(1), product.b_row_sums,
                     run.out(1), product.n, 0, false);
}

template <ConvolutionPass Pass>
void run_convolution(Backend& backend, const OpRun& run) {
  Convolution convolution{.pass = Pass,
                          .type = run.type(0),
                          .window = window_of(run, Pass),
                          .result = run.out(),
                          .accumulate = run.accumulate[0]};
  switch (Pass) {
    case ConvolutionPass::kForward:
      convolution.x = run.in(0);
      convolution.w = run.in(1);
      if (run.inputs.size() == 3) convolution.bias = run.in(2);
      convolution.out_channels = run.columns(1);
      break;
    case ConvolutionPass::kInputGrad:
      convolution.dy = run.in(0);
      convolution.w = run.in(1);
      convolution.out_channels = run.columns(1);
      break;
    case ConvolutionPass::kWeightGrad:
      convolution.x = run.in(0);
      convolution.dy = run.in(1);
      convolution.out_channels = run.columns(1);
      break;
  }
  if (!backend.convolve(convolution)) convolve_by_product(backend, convolution);
}

}  // namespace

const OpKernel kLinearKernel{.run = run_linear, .accumulates = true};
const OpKernel kLinearInputGradKernel{.run = run_linear_input_grad, .accumulates = true};
const OpKernel kLinearWeightGradKernel{.run = run_linear_weight_grad, .accumulates = true};
const OpKernel kLinearGeluKernel{run_linear_gelu};
const OpKernel kLinearAddKernel{run_linear_add};
const OpKernel kLinearInputGradGeluKernel{run_linear_input_grad_gelu};
const OpKernel kLinearWeightGradSumKernel{.run = run_linear_weight_grad_sum, .accumulates = true};
const OpKernel kConvolutionKernel{.run = run_convolution<ConvolutionPass::kForward>,
                                  .accumulates = true};
const OpKernel kConvolutionInputGradKernel{run_convolution<ConvolutionPass::kInputGrad>};
const OpKernel kConvolutionWeightGradKernel{.run = run_convolution<ConvolutionPass::kWeightGrad>,
                                            .accumulates = true};

}  // namespace weft::cuda
