#include "apps/models/classifier_graph.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {
namespace {

constexpr std::int64_t kKernel = 3;
constexpr std::int64_t kStride = 2;

void check(const ClassifierShape& s) {
  const auto positive = [](std::int64_t size) { return size >= 1; };
  if (!std::ranges::all_of(std::vector{s.height, s.width, s.colours, s.batch}, positive) ||
      !std::ranges::all_of(s.hidden, positive) || !std::ranges::all_of(s.channels, positive) ||
      s.classes < 2)
    throw_error(ErrorCode::kInvalidArgument,
                "every size of a classifier must be at least 1, and the classes at least 2, but "
                "height={} width={} colours={} classes={} batch={}",
                s.height, s.width, s.colours, s.classes, s.batch);
  if (s.hidden.empty())
    throw_error(ErrorCode::kInvalidArgument, "a classifier needs a hidden layer");
  if ((s.kind == ClassifierShape::Kind::kCnn) == s.channels.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "a cnn needs the channels of its convolutions, and an mlp has none");
}

/// Builder of one graph.
class ClassifierWriter {
 public:
  ClassifierWriter(const ClassifierShape& shape, GraphBuilder& b) : shape_(shape), b_(b) {}

  ValueId convolutions(ValueId x) {
    for (const std::int64_t channels : shape_.channels) {
      const auto scope = next_layer("conv");
      x = b_.gelu(convolved(x, kKernel, kKernel, channels, kStride, kKernel / 2));
    }
    return x;
  }

  ValueId hidden_layers(ValueId x) {
    for (const std::int64_t width : shape_.hidden) {
      const auto scope = next_layer("hidden");
      const Shape& from = b_.type(x).shape;
      const bool has_picture = from.size() == 4 && from[1] * from[2] > 1;
      x = b_.gelu(has_picture ? convolved(x, from[1], from[2], width, 1, 0) : linear(x, width, 2));
    }
    return x;
  }

  ValueId output_layer(ValueId x) {
    const auto scope = next_layer("output");
    axis_ = "classes";
    return linear(x, shape_.classes, 1);
  }

 private:
  /// Starts the next block and returns a name scope such as "conv0." or "hidden1.". All layers
  /// share one counter.
  GraphBuilder::Scope next_layer(const std::string& kind) {
    b_.set_block(layers_);
    from_axis_ = axis_.empty() ? first_axis() : axis_;
    axis_ = layers_ % 2 == 0 ? "inner" : "channels";
    return b_.scope(kind + std::to_string(layers_++));
  }
  const char* first_axis() const {
    return shape_.kind == ClassifierShape::Kind::kMlp ? "pixels" : "colours";
  }

  ValueId convolved(ValueId x, std::int64_t height, std::int64_t width, std::int64_t out,
                    std::int64_t stride, std::int64_t padding) {
    const std::int64_t in = b_.type(x).shape.back();
    const ValueId w = b_.parameter("weight", {height, width, in, out},
                                   normal(std::sqrt(2.0 / (height * width * in))),
                                   {"kernel", "kernel", from_axis_, axis_});
    return b_.convolution(x, w, bias(out), stride, padding);
  }

  /// Adds a fully connected layer. `gain` scales the variance of its initial weights: 2 before a
  /// GELU.
  ValueId linear(ValueId x, std::int64_t out, double gain) {
    const std::int64_t in = b_.type(x).shape.back();
    const ValueId w =
        b_.parameter("weight", {in, out}, normal(std::sqrt(gain / in)), {from_axis_, axis_});
    return b_.linear(x, w, bias(out));
  }

  ValueId bias(std::int64_t out) { return b_.parameter("bias", {out}, zeros(), {axis_}, false); }

  const ClassifierShape& shape_;
  GraphBuilder& b_;
  int layers_ = 0;
  std::string from_axis_, axis_;  ///< Logical axes of this layer's input and output features.
};

}  // namespace

ClassifierGraph classifier_graph(const ClassifierShape& shape, double loss_scale) {
  check(shape);
  GraphBuilder b(shape.precision);
  ClassifierGraph result;
  if (shape.kind == ClassifierShape::Kind::kMlp) {
    const std::int64_t values = shape.height * shape.width * shape.colours;
    result.pixels = b.input("pixels", {DType::kF32, {shape.batch, values}}, {"batch", "pixels"});
    result.targets = b.input("targets", {DType::kI32, {shape.batch}}, {"batch"});
  } else {
    result.pixels =
        b.input("pixels", {DType::kF32, {shape.batch, shape.height, shape.width, shape.colours}},
                {"batch", "height", "width", "colours"});
    result.targets =
        b.input("targets", {DType::kI32, {shape.batch, 1, 1}}, {"batch", "height", "width"});
  }
  ClassifierWriter writer(shape, b);
  result.features =
      writer.hidden_layers(writer.convolutions(b.convert(result.pixels, b.precision())));
  result.logits = writer.output_layer(result.features);
  result.loss = b.cross_entropy(result.logits, result.targets, loss_scale);
  result.graph = std::move(b).finish();
  return result;
}

}  // namespace weft::apps
