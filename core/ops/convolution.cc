// convolution(x[B,H,W,C], w[KH,KW,C,N], bias[N]?; stride, padding) -> y[B,H',W',N], channels last:
//   y[b,i,j,n] = bias[n] + sum over p, q, c of
//                x[b, i*stride + p - padding, j*stride + q - padding, c] * w[p,q,c,n]
// with zeros outside of x; H' = (H + 2 padding - KH) / stride + 1, rounded down, and W' likewise.
// convolution_input_grad(dy, w; stride, padding, height, width) -> dx (H' and W' do not determine H
//   and W)
// convolution_weight_grad(x, dy; stride, padding, kernel_height, kernel_width) -> dw f32
// The bias's gradient is sum_leading. Height and width cannot be split, as this would need a halo
// exchange.
#include "core/ops/graph_builder.h"
#include "core/ops/internal/definitions.h"
#include "core/ops/internal/type_check.h"

namespace weft {
namespace {

/// Returns the number of pixels along one dimension of y.
std::int64_t convolved(const Op& op, std::int64_t size, std::int64_t kernel) {
  return (size + 2 * op.integer("padding") - kernel) / op.integer("stride") + 1;
}

void require_pictures(const Op& op, std::span<const TensorType> inputs, std::size_t input) {
  require(inputs[input].shape.size() == 4, op, inputs,
          "input {} must have the shape [batch, height, width, channels]", input);
  require(op.integer("stride") >= 1 && op.integer("padding") >= 0, op, inputs,
          "stride {} and padding {}: expected a stride of at least 1 and a padding of at least 0",
          op.integer("stride"), op.integer("padding"));
}

std::vector<TensorType> infer_convolution(const Op& op, std::span<const TensorType> inputs) {
  const bool has_bias = inputs.size() == 3;
  const DType real =
      has_bias ? require_inputs(op, inputs, {Element::kReal, Element::kReal, Element::kReal})
               : require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require_pictures(op, inputs, 0);
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  require(w.size() == 4 && w[2] == x[3], op, inputs,
          "w must have the shape [height, width, {}, channels]", x[3]);
  require(x[1] + 2 * op.integer("padding") >= w[0] && x[2] + 2 * op.integer("padding") >= w[1], op,
          inputs, "the kernel is larger than the padded picture");
  if (has_bias)
    require(inputs[2].shape == Shape{w[3]}, op, inputs, "the bias must have the shape {}",
            to_string(Shape{w[3]}));
  return {{real, {x[0], convolved(op, x[1], w[0]), convolved(op, x[2], w[1]), w[3]}}};
}

std::vector<TensorType> infer_convolution_input_grad(const Op& op,
                                                     std::span<const TensorType> inputs) {
  const DType real = require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require_pictures(op, inputs, 0);
  const Shape& dy = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  require(w.size() == 4 && w[3] == dy[3], op, inputs, "w's last dimension must equal dy's");
  const std::int64_t height = op.integer("height"), width = op.integer("width");
  require(convolved(op, height, w[0]) == dy[1] && convolved(op, width, w[1]) == dy[2], op, inputs,
          "a picture of {} by {} does not give dy's size", height, width);
  return {{real, {dy[0], height, width, w[2]}}};
}

std::vector<TensorType> infer_convolution_weight_grad(const Op& op,
                                                      std::span<const TensorType> inputs) {
  require_inputs(op, inputs, {Element::kReal, Element::kReal});
  require_pictures(op, inputs, 0);
  require_pictures(op, inputs, 1);
  const Shape& x = inputs[0].shape;
  const Shape& dy = inputs[1].shape;
  const std::int64_t height = op.integer("kernel_height"), width = op.integer("kernel_width");
  require(
      x[0] == dy[0] && convolved(op, x[1], height) == dy[1] && convolved(op, x[2], width) == dy[2],
      op, inputs, "x does not convolve to dy with a kernel of {} by {}", height, width);
  return {{DType::kF32, {height, width, x[3], dy[3]}}};
}

/// Returns the operations of a product. Each element of y is a sum over a kernel of C channels; all
/// three products multiply the same pairs.
double convolution_product_flops(const Shape& y, std::int64_t kernel_height,
                                 std::int64_t kernel_width, std::int64_t channels) {
  return 2.0 * num_elements(y) * (kernel_height * kernel_width * channels);
}
double convolution_flops(const Op& op, std::span<const TensorType> inputs) {
  const Shape& w = inputs[1].shape;
  return convolution_product_flops(infer_convolution(op, inputs)[0].shape, w[0], w[1], w[2]);
}
double convolution_input_grad_flops(const Op&, std::span<const TensorType> inputs) {
  const Shape& w = inputs[1].shape;
  return convolution_product_flops(inputs[0].shape, w[0], w[1], w[2]);
}
double convolution_weight_grad_flops(const Op& op, std::span<const TensorType> inputs) {
  return convolution_product_flops(inputs[1].shape, op.integer("kernel_height"),
                                   op.integer("kernel_width"), inputs[0].shape[3]);
}

/// Dimensions of a convolution as factors. The product determines which of batch and channels are
/// summed.
struct ConvolutionFactors {
  enum : int {
    kBatch,
    kHeight,
    kWidth,
    kIn,
    kOut,
    kOutHeight,
    kOutWidth,
    kKernelHeight,
    kKernelWidth
  };
  std::vector<Factor> factors;
  std::vector<int> x{kBatch, kHeight, kWidth, kIn}, w{kKernelHeight, kKernelWidth, kIn, kOut},
      y{kBatch, kOutHeight, kOutWidth, kOut};

  ConvolutionFactors(const Shape& xs, const Shape& ws, const Shape& ys, FactorKind batch,
                     FactorKind in, FactorKind out)
      : factors{{batch, xs[0]},
                {FactorKind::kWhole, xs[1]},
                {FactorKind::kWhole, xs[2]},
                {in, xs[3]},
                {out, ys[3]},
                {FactorKind::kWhole, ys[1]},
                {FactorKind::kWhole, ys[2]},
                {FactorKind::kWhole, ws[0]},
                {FactorKind::kWhole, ws[1]}} {}
};

FactorSignature convolution_signature(const Op& op, std::span<const TensorType> inputs) {
  const ConvolutionFactors f(inputs[0].shape, inputs[1].shape,
                             infer_convolution(op, inputs)[0].shape, FactorKind::kParallel,
                             FactorKind::kReduction, FactorKind::kParallel);
  FactorSignature signature{f.factors, {f.x, f.w}, {f.y}, {}, {{0}, {1}}};
  if (inputs.size() == 3) {
    signature.inputs.push_back({ConvolutionFactors::kOut});
    signature.single_device_inputs = {2};
  }
  return signature;
}

FactorSignature convolution_input_grad_signature(const Op& op, std::span<const TensorType> inputs) {
  const ConvolutionFactors f(infer_convolution_input_grad(op, inputs)[0].shape, inputs[1].shape,
                             inputs[0].shape, FactorKind::kParallel, FactorKind::kParallel,
                             FactorKind::kReduction);
  return {f.factors, {f.y, f.w}, {f.x}, {}, {{0}, {1}}};
}

FactorSignature convolution_weight_grad_signature(const Op& op,
                                                  std::span<const TensorType> inputs) {
  const ConvolutionFactors f(inputs[0].shape, infer_convolution_weight_grad(op, inputs)[0].shape,
                             inputs[1].shape, FactorKind::kReduction, FactorKind::kParallel,
                             FactorKind::kParallel);
  return {f.factors, {f.x, f.y}, {f.w}, {}, {{0}, {1}}};
}

void differentiate_convolution(GradientRule& rule) {
  const std::vector<ValueId> inputs = rule.node().inputs;
  const ValueId dy = *rule.output_gradient();
  const Shape x = rule.type(inputs[0]).shape, w = rule.type(inputs[1]).shape;
  const Attribute stride = rule.node().op.integer("stride"),
                  padding = rule.node().op.integer("padding");
  if (rule.needs_gradient(0)) {
    const Op op{OpKind::kConvolutionInputGrad,
                {{"stride", stride}, {"padding", padding}, {"height", x[1]}, {"width", x[2]}}};
    rule.contribute(0, rule.emit(op, {dy, inputs[1]}, Pass::kInputGrad)[0]);
  }
  if (rule.needs_gradient(1)) {
    const Op op{OpKind::kConvolutionWeightGrad,
                {{"stride", stride},
                 {"padding", padding},
                 {"kernel_height", w[0]},
                 {"kernel_width", w[1]}}};
    rule.contribute(1, rule.emit(op, {inputs[0], dy}, rule.pass_of(1))[0]);
  }
  if (inputs.size() == 3 && rule.needs_gradient(2)) {
    const Op op{OpKind::kSumLeading, {{"dimensions", std::int64_t{3}}}};
    rule.contribute(2, rule.emit(op, {dy}, rule.pass_of(2))[0]);
  }
}

}  // namespace

ValueId GraphBuilder::convolution(ValueId x, ValueId w, std::optional<ValueId> bias,
                                  std::int64_t stride, std::int64_t padding) {
  std::vector<ValueId> inputs{x, w};
  if (bias) inputs.push_back(*bias);
  return append({OpKind::kConvolution, {{"stride", stride}, {"padding", padding}}},
                std::move(inputs));
}

const OpDefinition kConvolutionDefinition{infer_convolution, convolution_flops,
                                          convolution_signature, differentiate_convolution};
const OpDefinition kConvolutionInputGradDefinition{infer_convolution_input_grad,
                                                   convolution_input_grad_flops,
                                                   convolution_input_grad_signature, nullptr};
const OpDefinition kConvolutionWeightGradDefinition{infer_convolution_weight_grad,
                                                    convolution_weight_grad_flops,
                                                    convolution_weight_grad_signature, nullptr};

}  // namespace weft
