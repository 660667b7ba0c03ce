#include "apps/models/conditional_unet.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {
namespace {

constexpr std::int64_t kResnetGroups = 4;
constexpr std::int64_t kTransformerGroups = 32;

void check(const ConditionalUnetShape& s) {
  if (s.channels < 1 || s.channels % kTransformerGroups != 0 || s.heads < 1 ||
      s.channels % s.heads != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "a conditional U-Net's {} channels must be a multiple of {} and of its {} heads",
                s.channels, kTransformerGroups, s.heads);
  }
  if (s.size < 8 || s.size % 8 != 0 || s.context_length < 1 || s.batch < 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "the picture size {} must be a multiple of 8, since it is halved three times; "
                "context_length {} and batch {} must be at least 1",
                s.size, s.context_length, s.batch);
  }
}

class ConditionalUnetWriter {
 public:
  ConditionalUnetWriter(const ConditionalUnetShape& shape, GraphBuilder& b, ValueId context)
      : shape_(shape), b_(b), context_(context) {}

  ValueId write(ValueId pixels, ValueId time_features) {
    const std::int64_t c = shape_.channels;
    const std::vector<std::int64_t> levels{c, 2 * c, 4 * c};
    b_.set_block(0);
    embed_time(time_features);
    ValueId x = convolution("input", pixels, 3, c);
    std::vector<ValueId> skips;
    for (std::size_t level = 0; level < levels.size(); ++level) {
      const auto scope = begin(1 + static_cast<int>(level));
      x = transformer("transformer", resnet("resnet", x, levels[level]));
      skips.push_back(x);
      x = convolution("shrink", x, 3, levels[level], 2);
    }
    const ValueId shrunk = x;
    x = single_resnet(4, x);
    const ValueId below = x;
    {
      const auto scope = begin(5);
      x = transformer("transformer", resnet("resnet", x, 4 * c));
    }
    x = single_resnet(6, x);
    x = single_resnet(7, b_.concat(x, below));
    x = single_resnet(8, b_.concat(x, shrunk));
    for (int level = 2; level >= 0; --level) {
      const auto scope = begin(11 - level);
      x = convolution("grow", b_.upsample(x, 2), 3, last(x));
      x = b_.concat(x, skips[level]);
      x = transformer("transformer", resnet("resnet", x, levels[level]));
    }
    const auto scope = begin(12);
    return convolution("output", b_.silu(group_norm("norm", x, kResnetGroups, "channels")), 3, 4);
  }

 private:
  GraphBuilder::Scope begin(int block) {
    b_.set_block(block);
    return b_.scope("layer" + std::to_string(block));
  }
  ValueId single_resnet(int block, ValueId x) {
    const auto scope = begin(block);
    return resnet("resnet", x, 4 * shape_.channels);
  }
  std::int64_t last(ValueId x) const { return b_.type(x).shape.back(); }

  void embed_time(ValueId features) {
    const auto scope = b_.scope("time");
    const std::int64_t width = 4 * shape_.channels;
    time_ = linear("expand", features, width, {"embed", "time"});
    time_ = linear("mix", b_.silu(time_), width, {"time", "embed"});
  }

  ValueId convolution(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t out,
                      std::int64_t stride = 1,
                      const std::pair<std::string, std::string>& axes = {"channels", "channels"}) {
    const auto scope = b_.scope(name);
    const double deviation = std::sqrt(1.0 / (kernel * kernel * last(x)));
    const ValueId w = b_.parameter("weight", {kernel, kernel, last(x), out}, normal(deviation),
                                   {"kernel", "kernel", axes.first, axes.second});
    return b_.convolution(x, w, b_.parameter("bias", {out}, zeros(), {axes.second}, false), stride,
                          kernel / 2);
  }

  ValueId linear(const std::string& name, ValueId x, std::int64_t out,
                 const std::pair<std::string, std::string>& axes, bool bias = true) {
    const auto scope = b_.scope(name);
    const double deviation = std::sqrt(1.0 / last(x));
    const ValueId w =
        b_.parameter("weight", {last(x), out}, normal(deviation), {axes.first, axes.second});
    if (!bias) return b_.linear(x, w);
    return b_.linear(x, w, b_.parameter("bias", {out}, zeros(), {axes.second}, false));
  }

  ValueId group_norm(const std::string& name, ValueId x, std::int64_t groups,
                     const std::string& axis) {
    const auto scope = b_.scope(name);
    const ValueId gamma = b_.parameter("gamma", {last(x)}, ones(), {axis}, false);
    const ValueId beta = b_.parameter("beta", {last(x)}, zeros(), {axis}, false);
    return b_.group_norm(x, gamma, beta, last(x) / groups);
  }

  ValueId layer_norm(const std::string& name, ValueId x) {
    const auto scope = b_.scope(name);
    const ValueId gamma = b_.parameter("gamma", {last(x)}, ones(), {"channels"}, false);
    const ValueId beta = b_.parameter("beta", {last(x)}, zeros(), {"channels"}, false);
    return b_.layer_norm(x, gamma, beta);
  }

  /// Residual block: x (projected to `out` channels) plus two convolutions with the time embedding
  /// added between them.
  ValueId resnet(const std::string& name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    ValueId y = b_.silu(group_norm("norm1", x, kResnetGroups, "channels"));
    y = convolution("conv1", y, 3, out, 1, {"channels", "inner"});
    y = b_.add_channels(y, linear("time", b_.silu(time_), out, {"embed", "inner"}));
    y = b_.silu(group_norm("norm2", y, kResnetGroups, "inner"));
    y = convolution("conv2", y, 3, out, 1, {"inner", "channels"});
    return b_.add(last(x) == out ? x : convolution("shortcut", x, 1, out), y);
  }

  /// Transformer block: x plus projections around self-attention, cross-attention to the context,
  /// and a gated feed-forward, each with a residual connection.
  ValueId transformer(const std::string& name, ValueId x) {
    const auto scope = b_.scope(name);
    const std::int64_t width = last(x);
    ValueId y = group_norm("norm", x, kTransformerGroups, "channels");
    y = convolution("project_in", y, 1, width);
    const ValueId normed = layer_norm("norm1", y);
    y = b_.add(y, attention("self", normed, normed));
    y = b_.add(y, attention("cross", layer_norm("norm2", y), context_));
    y = b_.add(y, feed_forward(layer_norm("norm3", y)));
    return b_.add(x, convolution("project_out", y, 1, width));
  }

  ValueId attention(const std::string& name, ValueId query_input, ValueId key_value_input) {
    const auto scope = b_.scope(name);
    const std::int64_t width = last(query_input);
    const std::string key_value_axis = key_value_input == context_ ? "context" : "channels";
    const ValueId mixed =
        b_.cross_attention(linear("q", query_input, width, {"channels", "heads"}, false),
                           linear("k", key_value_input, width, {key_value_axis, "heads"}, false),
                           linear("v", key_value_input, width, {key_value_axis, "heads"}, false),
                           width / shape_.heads);
    return linear("out", mixed, width, {"heads", "channels"});
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = b_.scope("mlp");
    const std::int64_t width = last(x);
    const ValueId value = linear("value", x, 4 * width, {"channels", "mlp"});
    const ValueId gate = linear("gate", x, 4 * width, {"channels", "mlp"});
    return linear("contract", b_.multiply(value, b_.gelu(gate)), width, {"mlp", "channels"});
  }

  const ConditionalUnetShape& shape_;
  GraphBuilder& b_;
  const ValueId context_;
  ValueId time_;
};

}  // namespace

ConditionalUnetGraph conditional_unet_graph(const ConditionalUnetShape& shape, double loss_scale) {
  check(shape);
  GraphBuilder b(shape.precision);
  ConditionalUnetGraph result;
  const std::int64_t size = shape.size, c = shape.channels;
  const std::vector<std::string> picture{"batch", "height", "width", "colours"};
  result.pixels = b.input("pixels", {DType::kF32, {shape.batch, size, size, 3}}, picture);
  result.time_features =
      b.input("time_features", {DType::kF32, {shape.batch, c}}, {"batch", "embed"});
  result.context = b.input("context", {DType::kF32, {shape.batch, shape.context_length, 4 * c}},
                           {"batch", "sequence", "context"});
  result.targets = b.input("targets", {DType::kF32, {shape.batch, size, size, 4}}, picture);
  const auto converted = [&](ValueId input) { return b.convert(input, b.precision()); };
  result.output = ConditionalUnetWriter(shape, b, converted(result.context))
                      .write(converted(result.pixels), converted(result.time_features));
  result.loss = b.squared_error(result.output, result.targets, loss_scale);
  result.graph = std::move(b).finish();
  return result;
}

}  // namespace weft::apps
