#include "apps/models/u_transformer_graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft::apps {
namespace {

void check(const UTransformerShape& s) {
  const std::int64_t smallest =
      std::min({s.height, s.width, s.levels, s.channels, s.group_size, s.head_dim, s.batch});
  if (smallest < 1 || s.classes < 2 || s.levels > 16) {
    throw_error(ErrorCode::kInvalidArgument,
                "every size of a U-Transformer must be at least 1, and the classes at least 2, but "
                "height={} width={} classes={} "
                "levels={} channels={} group_size={} head_dim={} batch={}",
                s.height, s.width, s.classes, s.levels, s.channels, s.group_size, s.head_dim,
                s.batch);
  }
  const std::int64_t multiple = std::int64_t{1} << s.levels;
  if (s.height % multiple != 0 || s.width % multiple != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "a picture of {} x {} cannot be halved {} times: both must be multiples of {}",
                s.height, s.width, s.levels, multiple);
  }
  if (s.channels % s.group_size != 0 || s.channels % s.head_dim != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "{} channels must be a multiple of group_size {} and of head_dim {}", s.channels,
                s.group_size, s.head_dim);
  }
  if (s.attended_skips < 0 || s.attended_skips > s.levels) {
    throw_error(ErrorCode::kInvalidArgument,
                "attended_skips must be from 0 to {}, the number of skips, not {}", s.levels,
                s.attended_skips);
  }
}

/// Builder of one graph.
class UTransformerWriter {
 public:
  UTransformerWriter(const UTransformerShape& shape, GraphBuilder& b) : shape_(shape), b_(b) {}

  ValueId down(ValueId x) {
    for (std::int64_t level = 0; level < shape_.levels; ++level) {
      b_.set_block(level);
      const auto scope = b_.scope("down" + std::to_string(level));
      x = double_convolution(x, channels(level));
      skips_.push_back(x);
      x = convolution("shrink", x, 3, channels(level + 1), 2, {"channels", "channels"});
    }
    return x;
  }

  ValueId bottom(ValueId x) {
    b_.set_block(shape_.levels);
    const auto scope = b_.scope("bottom");
    x = double_convolution(x, channels(shape_.levels));
    const auto inner = b_.scope("attention");
    const ValueId normed = with_positions(layer_norm("norm", x));
    const std::int64_t width = last(x);
    const ValueId mixed =
        b_.cross_attention(linear("q", normed, width, "heads"), linear("k", normed, width, "heads"),
                           linear("v", normed, width, "heads"), shape_.head_dim);
    return b_.add(x, projection(mixed, width));
  }

  ValueId up(ValueId x) {
    for (std::int64_t level = shape_.levels - 1; level >= 0; --level) {
      b_.set_block(2 * shape_.levels - level);
      const auto scope = b_.scope("up" + std::to_string(level));
      ValueId skip = skips_[level];
      if (shape_.levels - level <= shape_.attended_skips) skip = gated(skip, x);
      const ValueId grown =
          convolution("grow", b_.upsample(x, 2), 3, channels(level), 1, {"channels", "channels"});
      x = double_convolution(b_.concat(skip, grown), channels(level));
    }
    return x;
  }

  ValueId head(ValueId x) { return linear("head", x, shape_.classes, "classes"); }

 private:
  std::int64_t channels(std::int64_t level) const { return shape_.channels << level; }
  std::int64_t last(ValueId x) const { return b_.type(x).shape.back(); }

  ValueId convolution(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t out,
                      std::int64_t stride, const std::pair<std::string, std::string>& axes) {
    const auto scope = b_.scope(name);
    const std::int64_t in = last(x);
    const double deviation = std::sqrt(2.0 / (kernel * kernel * in));
    const ValueId w = b_.parameter("weight", {kernel, kernel, in, out}, normal(deviation),
                                   {"kernel", "kernel", axes.first, axes.second});
    const ValueId bias = b_.parameter("bias", {out}, zeros(), {axes.second}, false);
    return b_.convolution(x, w, bias, stride, kernel % 2 == 1 ? kernel / 2 : 0);
  }

  ValueId group_norm(const std::string& name, ValueId x, const std::string& axis) {
    const auto scope = b_.scope(name);
    const ValueId gamma = b_.parameter("gamma", {last(x)}, ones(), {axis}, false);
    const ValueId beta = b_.parameter("beta", {last(x)}, zeros(), {axis}, false);
    return b_.group_norm(x, gamma, beta, shape_.group_size);
  }

  ValueId layer_norm(const std::string& name, ValueId x) {
    const auto scope = b_.scope(name);
    const ValueId gamma = b_.parameter("gamma", {last(x)}, ones(), {"channels"}, false);
    const ValueId beta = b_.parameter("beta", {last(x)}, zeros(), {"channels"}, false);
    return b_.layer_norm(x, gamma, beta);
  }

  /// Applies convolution, group norm and SiLU, twice.
  ValueId double_convolution(ValueId x, std::int64_t out) {
    x = b_.silu(
        group_norm("norm1", convolution("conv1", x, 3, out, 1, {"channels", "inner"}), "inner"));
    return b_.silu(
        group_norm("norm2", convolution("conv2", x, 3, out, 1, {"inner", "channels"}), "channels"));
  }

  ValueId linear(const std::string& name, ValueId x, std::int64_t out, const std::string& axis) {
    const auto scope = b_.scope(name);
    const double deviation = std::sqrt(1.0 / last(x));
    const ValueId w = b_.parameter("weight", {last(x), out}, normal(deviation), {"channels", axis});
    return b_.linear(x, w, b_.parameter("bias", {out}, zeros(), {axis}, false));
  }

  ValueId projection(ValueId mixed, std::int64_t out) {
    const double deviation = std::sqrt(1.0 / last(mixed));
    const ValueId w = b_.parameter("projection.weight", {last(mixed), out}, normal(deviation),
                                   {"heads", "channels"});
    return b_.linear(mixed, w,
                     b_.parameter("projection.bias", {out}, zeros(), {"channels"}, false));
  }

  ValueId with_positions(ValueId x) {
    const Shape shape = b_.type(x).shape;
    return b_.add(x, b_.parameter("positions", {shape[1], shape[2], shape[3]}, normal(0.02),
                                  {"height", "width", "channels"}, false));
  }

  /// Multiplies each channel and pixel of the skip by a gate in (0, 1), computed from the deeper
  /// features by cross-attention.
  ValueId gated(ValueId skip, ValueId deep) {
    const auto scope = b_.scope("gate");
    const std::int64_t width = last(skip);
    const ValueId query_input = with_positions(layer_norm("deep_norm", deep));
    const ValueId small = convolution("shrink", skip, 2, width, 2, {"channels", "channels"});
    const ValueId mixed = b_.cross_attention(
        linear("q", query_input, width, "heads"), linear("k", query_input, width, "heads"),
        linear("v", layer_norm("skip_norm", small), width, "heads"), shape_.head_dim);
    return b_.multiply(skip, b_.upsample(b_.sigmoid(projection(mixed, width)), 2));
  }

  const UTransformerShape& shape_;
  GraphBuilder& b_;
  std::vector<ValueId> skips_;
};

}  // namespace

UTransformerGraph u_transformer_graph(const UTransformerShape& shape, double loss_scale) {
  check(shape);
  GraphBuilder b(shape.precision);
  UTransformerGraph result;
  const Shape picture{shape.batch, shape.height, shape.width};
  result.pixels = b.input("pixels", {DType::kF32, {shape.batch, shape.height, shape.width, 1}},
                          {"batch", "height", "width", "colours"});
  result.targets = b.input("targets", {DType::kI32, picture}, {"batch", "height", "width"});
  result.weights = b.input("weights", {DType::kF32, picture}, {"batch", "height", "width"});
  UTransformerWriter writer(shape, b);
  result.logits =
      writer.head(writer.up(writer.bottom(writer.down(b.convert(result.pixels, b.precision())))));
  result.loss = b.cross_entropy(result.logits, result.targets, loss_scale, result.weights);
  result.graph = std::move(b).finish();
  return result;
}

}  // namespace weft::apps
