#include "core/cpu/internal/convolution.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/internal/onednn_engine.h"
#include "core/cpu/internal/op_kernels.h"

namespace weft {
namespace {

using Memory = dnnl::memory;
using Tag = dnnl::memory::format_tag;

Memory::desc f32(const Memory::dims& dims, Tag tag) { return {dims, Memory::data_type::f32, tag}; }

/// Argument of a primitive: the caller's tensor and, if the primitive needs another layout, a
/// converted copy.
struct Argument {
  int name = 0;
  Memory given;
  std::optional<Memory> laid_out;
  std::optional<dnnl::reorder> reorder;

  Argument(int argument, const dnnl::engine& engine, const Memory::desc& plain,
           const Memory::desc& wanted, bool is_output)
      : name(argument), given(plain, engine, DNNL_MEMORY_NONE) {
    if (plain == wanted) return;
    laid_out.emplace(wanted, engine);
    reorder.emplace(is_output ? dnnl::reorder(*laid_out, given) : dnnl::reorder(given, *laid_out));
  }
  const Memory& used() const { return laid_out ? *laid_out : given; }
};

}  // namespace

struct Convolutions::CompiledConvolution {
  dnnl::primitive primitive;
  std::vector<Argument> inputs;
  std::optional<Argument> output;
};

Convolutions::Convolutions() : engine_(std::make_unique<OneDnnEngine>()) {}
Convolutions::~Convolutions() = default;

Convolutions::CompiledConvolution& Convolutions::compiled(Direction direction,
                                                          const ConvolutionSizes& s) {
  std::unique_ptr<CompiledConvolution>& compiled = compiled_[{direction, s}];
  if (compiled) return *compiled;
  const dnnl::engine& engine = engine_->engine;
  // oneDNN orders dimensions as [batch, channels, height, width] and [out, in, height, width]; the
  // tag gives the memory layout.
  const Memory::dims xs{s.batch, s.in, s.height, s.width},
      ws{s.out, s.in, s.kernel_height, s.kernel_width},
      ys{s.batch, s.out, s.out_height, s.out_width}, stride{s.stride, s.stride},
      padding{s.padding, s.padding};
  // If the stride does not divide the size, the padding after the picture is smaller; it is
  // negative if no kernel reaches the last pixels.
  const Memory::dims after{(s.out_height - 1) * s.stride + s.kernel_height - s.height - s.padding,
                           (s.out_width - 1) * s.stride + s.kernel_width - s.width - s.padding};
  const Memory::desc x = f32(xs, Tag::nhwc), y = f32(ys, Tag::nhwc), any_w = f32(ws, Tag::any),
                     w = f32(ws, Tag::hwio),
                     bias = s.has_bias ? f32({s.out}, Tag::a) : Memory::desc();
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kAlgorithm, x, any_w, bias, y, stride, padding, after},
      engine);
  auto made = std::make_unique<CompiledConvolution>();
  switch (direction) {
    case Direction::kForward:
      made->primitive = dnnl::convolution_forward(forward);
      made->inputs.emplace_back(DNNL_ARG_SRC, engine, x, forward.src_desc(), false);
      made->inputs.emplace_back(DNNL_ARG_WEIGHTS, engine, w, forward.weights_desc(), false);
      if (s.has_bias)
        made->inputs.emplace_back(DNNL_ARG_BIAS, engine, bias, forward.bias_desc(), false);
      made->output.emplace(DNNL_ARG_DST, engine, y, forward.dst_desc(), true);
      break;
    case Direction::kInputGrad: {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {kAlgorithm, x, any_w, y, stride, padding, after}, engine, forward);
      made->primitive = dnnl::convolution_backward_data(backward);
      made->inputs.emplace_back(DNNL_ARG_DIFF_DST, engine, y, backward.diff_dst_desc(), false);
      made->inputs.emplace_back(DNNL_ARG_WEIGHTS, engine, w, backward.weights_desc(), false);
      made->output.emplace(DNNL_ARG_DIFF_SRC, engine, x, backward.diff_src_desc(), true);
      break;
    }
    case Direction::kWeightGrad: {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {kAlgorithm, x, any_w, y, stride, padding, after}, engine, forward);
      made->primitive = dnnl::convolution_backward_weights(backward);
      made->inputs.emplace_back(DNNL_ARG_SRC, engine, x, backward.src_desc(), false);
      made->inputs.emplace_back(DNNL_ARG_DIFF_DST, engine, y, backward.diff_dst_desc(), false);
      made->output.emplace(DNNL_ARG_DIFF_WEIGHTS, engine, w, backward.diff_weights_desc(), true);
      break;
    }
  }
  compiled = std::move(made);
  return *compiled;
}

void Convolutions::run(Direction direction, const ConvolutionSizes& sizes,
                       std::initializer_list<const float*> inputs, float* output) {
  try {
    CompiledConvolution& c = compiled(direction, sizes);
    std::unordered_map<int, Memory> arguments;
    auto data = inputs.begin();
    for (Argument& input : c.inputs) {
      input.given.set_data_handle(const_cast<float*>(*data++));
      if (input.reorder) input.reorder->execute(engine_->stream, input.given, *input.laid_out);
      arguments.emplace(input.name, input.used());
    }
    c.output->given.set_data_handle(output);
    arguments.emplace(c.output->name, c.output->used());
    c.primitive.execute(engine_->stream, arguments);
    if (c.output->reorder)
      c.output->reorder->execute(engine_->stream, *c.output->laid_out, c.output->given);
    engine_->stream.wait();
  } catch (const dnnl::error& error) {
    throw_error(ErrorCode::kInternal,
                "oneDNN failed in a convolution of [{},{},{},{}] by {}x{} to {} channels: {}",
                sizes.batch, sizes.height, sizes.width, sizes.in, sizes.kernel_height,
                sizes.kernel_width, sizes.out, error.what());
  }
}

void Convolutions::forward(const ConvolutionSizes& sizes, const float* x, const float* w,
                           const float* bias, float* y) {
  run(Direction::kForward, sizes, {x, w, bias}, y);
}
void Convolutions::input_grad(const ConvolutionSizes& sizes, const float* dy, const float* w,
                              float* dx) {
  run(Direction::kInputGrad, sizes, {dy, w}, dx);
}
void Convolutions::weight_grad(const ConvolutionSizes& sizes, const float* x, const float* dy,
                               float* dw) {
  run(Direction::kWeightGrad, sizes, {x, dy}, dw);
}

namespace {

ConvolutionSizes sizes_of(const Op& op, const Shape& x, const Shape& w, const Shape& y,
                          bool has_bias) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          y[1],
          y[2],
          y[3],
          w[0],
          w[1],
          op.integer("stride"),
          op.integer("padding"),
          has_bias};
}

void run_convolution(CpuKernels::Context& context, const OpRun& run) {
  const bool has_bias = run.inputs.size() == 3;
  context.convolutions.forward(
      sizes_of(run.op, run.shape(0), run.shape(1), run.outputs[0].type.shape, has_bias),
      run.floats(0), run.floats(1), has_bias ? run.floats(2) : nullptr, run.out_floats());
}

void run_convolution_input_grad(CpuKernels::Context& context, const OpRun& run) {
  context.convolutions.input_grad(
      sizes_of(run.op, run.outputs[0].type.shape, run.shape(1), run.shape(0), false), run.floats(0),
      run.floats(1), run.out_floats());
}

void run_convolution_weight_grad(CpuKernels::Context& context, const OpRun& run) {
  context.convolutions.weight_grad(
      sizes_of(run.op, run.shape(0), run.outputs[0].type.shape, run.shape(1), false), run.floats(0),
      run.floats(1), run.out_floats());
}

}  // namespace

const CpuOpKernel kConvolutionKernel{run_convolution};
const CpuOpKernel kConvolutionInputGradKernel{run_convolution_input_grad};
const CpuOpKernel kConvolutionWeightGradKernel{run_convolution_weight_grad};

}  // namespace weft
