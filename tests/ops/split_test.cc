// Tests ops that are split over devices against the whole op: layer norm, cross-entropy and
// embedding in 1, 2 and 3 slices, also on ill-conditioned inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/ops/op_definition.h"

namespace weft {
namespace {

struct RealArray {
  Shape shape;
  std::vector<float> values;

  static RealArray random(Shape shape, std::uint64_t seed, float scale = 1, float shift = 0) {
    RealArray result{std::move(shape), {}};
    PhiloxStream random(seed);
    for (std::int64_t i = 0; i < result.type().elements(); ++i) {
      const float number = 2 * uniform_float(static_cast<std::uint32_t>(random())) - 1;
      result.values.push_back(scale * number + shift);
    }
    return result;
  }
  TensorType type() const { return {DType::kF32, shape}; }
};

struct IdArray {
  Shape shape;
  std::vector<std::int32_t> values;
};

class SplitOps {
 public:
  /// Returns the op's first output.
  RealArray run(const Op& op, const std::vector<RealArray>& reals, const IdArray* ids = nullptr,
                std::size_t ids_at = 1) {
    return run_all(op, reals, ids, ids_at).front();
  }

  std::vector<RealArray> run_all(const Op& op, const std::vector<RealArray>& reals,
                                 const IdArray* ids = nullptr, std::size_t ids_at = 1) {
    std::vector<TensorType> types;
    std::vector<ConstTensorRef> in;
    for (const RealArray& number : reals)
      in.push_back({number.type(), std::as_bytes(std::span(number.values)).data()});
    if (ids != nullptr)
      in.insert(
          in.begin() + static_cast<std::ptrdiff_t>(ids_at),
          ConstTensorRef{{DType::kI32, ids->shape}, std::as_bytes(std::span(ids->values)).data()});
    for (const ConstTensorRef& tensor : in) types.push_back(tensor.type);
    std::vector<RealArray> results;
    std::vector<TensorRef> out;
    for (const TensorType& type : infer_types(op, types))
      results.push_back({type.shape, std::vector<float>(type.elements())});
    for (RealArray& result : results)
      out.push_back({result.type(), std::as_writable_bytes(std::span(result.values)).data()});
    stream_->run(op, in, out);
    return results;
  }

 private:
  CpuDevice device_;
  std::unique_ptr<Stream> stream_ = device_.create_stream();
};

void expect_near(const RealArray& actual, const RealArray& expected, double tolerance) {
  ASSERT_EQ(actual.shape, expected.shape);
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(actual.values[i], expected.values[i],
                tolerance * (1 + std::abs(expected.values[i])))
        << "element " << i;
  }
}

Op with_epsilon(OpKind kind) { return {kind, {{"epsilon", 1e-5}}}; }

TEST(SplitLayerNorm, IsTheWholeOneInAnyNumberOfSlices) {
  SplitOps ops;
  const std::int64_t width = 12;
  // A mean of 1000 is far above the deviation: its square would cancel all digits of the variance.
  for (const float shift : {0.0f, 1000.0f}) {
    const RealArray x = RealArray::random({3, 2, width}, 1, 0.5f, shift);
    const RealArray gamma = RealArray::random({width}, 2), beta = RealArray::random({width}, 3);
    const RealArray dy = RealArray::random({3, 2, width}, 4);
    const double tolerance = shift == 0 ? 1e-5 : 2e-3;
    for (const std::int64_t slices : {1, 2, 3}) {
      SCOPED_TRACE(slices);
      const Attribute slice_width = width / slices;
      const RealArray moments =
          ops.run({OpKind::kLayerNormMoments, {{"slice_width", slice_width}}}, {x});
      const RealArray statistics =
          ops.run({OpKind::kLayerNormStatistics, {{"slice_width", slice_width}, {"epsilon", 1e-5}}},
                  {moments});
      expect_near(ops.run({OpKind::kLayerNormApply, {}}, {x, statistics, gamma, beta}),
                  ops.run(with_epsilon(OpKind::kLayerNorm), {x, gamma, beta}), tolerance);
      const RealArray sums =
          ops.run({OpKind::kLayerNormGradientSums, {}}, {x, statistics, gamma, dy});
      expect_near(ops.run({OpKind::kLayerNormApplyInputGrad, {{"width", width}}},
                          {x, statistics, gamma, dy, sums}),
                  ops.run(with_epsilon(OpKind::kLayerNormInputGrad), {x, gamma, dy}), tolerance);
      const auto split = ops.run_all({OpKind::kLayerNormApplyWeightGrad, {}}, {x, statistics, dy});
      const auto whole = ops.run_all(with_epsilon(OpKind::kLayerNormWeightGrad), {x, dy});
      expect_near(split[0], whole[0], tolerance);
      expect_near(split[1], whole[1], tolerance);
    }
  }
}

std::vector<std::pair<std::string, Attribute>> located(std::int64_t count, const char* real,
                                                       std::int64_t real_count) {
  return {{"first", std::int64_t{0}}, {"count", count}, {real, real_count}};
}

TEST(SplitCrossEntropy, IsTheWholeOneInAnyNumberOfSlices) {
  SplitOps ops;
  const std::int64_t columns = 12;
  for (const float scale : {1.0f, 1e4f}) {
    const RealArray logits = RealArray::random({2, 3, columns}, 5, scale);
    const IdArray targets{{2, 3}, {0, 11, 5, 3, 4, 7}};
    const RealArray weights = RealArray::random({2, 3}, 6);
    const Op whole{OpKind::kCrossEntropy, {{"scale", 0.25}}};
    const Op whole_grad{OpKind::kCrossEntropyGrad, {{"scale", 0.25}}};
    for (const std::int64_t slices : {1, 2, 3}) {
      SCOPED_TRACE(slices);
      Op of_slices{OpKind::kCrossEntropyMoments, located(columns, "columns", columns)};
      of_slices.attributes.emplace_back("slice_width", columns / slices);
      const RealArray statistics =
          ops.run({OpKind::kCrossEntropyStatistics, {}}, {ops.run(of_slices, {logits}, &targets)});
      const Op loss{OpKind::kCrossEntropyOfStatistics, {{"scale", 0.25}}};
      Op gradient{OpKind::kCrossEntropyApplyGrad, located(columns, "columns", columns)};
      gradient.attributes.emplace_back("scale", 0.25);
      expect_near(ops.run(loss, {statistics}), ops.run(whole, {logits}, &targets), 1e-6);
      expect_near(ops.run(loss, {statistics, weights}), ops.run(whole, {logits, weights}, &targets),
                  1e-6);
      expect_near(ops.run(gradient, {logits, statistics}, &targets),
                  ops.run(whole_grad, {logits}, &targets), 1e-6);
      expect_near(ops.run(gradient, {logits, statistics, weights}, &targets),
                  ops.run(whole_grad, {logits, weights}, &targets), 1e-6);
    }
  }
}

TEST(SplitCrossEntropy, PaddingCountsForNothing) {
  SplitOps ops;
  const std::int64_t real = 7, columns = 12;
  RealArray padded = RealArray::random({5, columns}, 7, 3);
  RealArray logits{{5, real}, {}};
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float& value = padded.values[r * columns + c];
      if (c < real) logits.values.push_back(value);
      if (c >= real) value = 1e30f;
    }
  }
  const IdArray targets{{5}, {0, 6, 3, 4, 2}};
  // The last of three slices contains only padding.
  Op of_slices{OpKind::kCrossEntropyMoments, located(columns, "columns", real)};
  of_slices.attributes.emplace_back("slice_width", std::int64_t{4});
  const RealArray moments = ops.run(of_slices, {padded}, &targets);
  EXPECT_EQ(moments.values[6], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(moments.values[7], 0);
  const RealArray statistics = ops.run({OpKind::kCrossEntropyStatistics, {}}, {moments});
  expect_near(ops.run({OpKind::kCrossEntropyOfStatistics, {{"scale", 1.0}}}, {statistics}),
              ops.run({OpKind::kCrossEntropy, {{"scale", 1.0}}}, {logits}, &targets), 1e-6);
  Op gradient{OpKind::kCrossEntropyApplyGrad, located(columns, "columns", real)};
  gradient.attributes.emplace_back("scale", 1.0);
  const RealArray dlogits = ops.run(gradient, {padded, statistics}, &targets);
  const RealArray whole =
      ops.run({OpKind::kCrossEntropyGrad, {{"scale", 1.0}}}, {logits}, &targets);
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const float expected = c < real ? whole.values[r * real + c] : 0.0f;
      EXPECT_NEAR(dlogits.values[r * columns + c], expected, 1e-6) << r << " " << c;
    }
  }
}

TEST(SplitEmbedding, SlicesAddUpToTheTable) {
  SplitOps ops;
  const std::int64_t rows = 11, padded = 12, width = 5;
  const RealArray table = RealArray::random({padded, width}, 8);
  const IdArray ids{{2, 4}, {0, 10, 3, 3, 5, 8, 7, 4}};
  const RealArray dy = RealArray::random({2, 4, width}, 9);
  const RealArray real{{rows, width}, {table.values.begin(), table.values.begin() + rows * width}};
  const RealArray expected = ops.run({OpKind::kEmbedding, {}}, {real}, &ids);
  const RealArray expected_grad =
      ops.run({OpKind::kEmbeddingGrad, {{"rows", rows}}}, {dy}, &ids, 0);
  for (const std::int64_t slices : {1, 2, 3}) {
    RealArray sum{expected.shape, std::vector<float>(expected.values.size(), 0.0f)};
    std::vector<float> gradient;
    for (std::int64_t i = 0; i < slices; ++i) {
      const std::int64_t count = padded / slices, first = i * count;
      const auto begin = table.values.begin() + first * width;
      const RealArray part{{count, width}, {begin, begin + count * width}};
      const Op slice{OpKind::kEmbeddingSlice, located(padded, "rows", rows)};
      const RealArray found = ops.run(op_of_slice(slice, first, count), {part}, &ids);
      for (std::size_t e = 0; e < sum.values.size(); ++e) sum.values[e] += found.values[e];
      const Op grad{OpKind::kEmbeddingSliceGrad, located(padded, "rows", rows)};
      const RealArray added = ops.run(op_of_slice(grad, first, count), {dy}, &ids, 0);
      gradient.insert(gradient.end(), added.values.begin(), added.values.end());
    }
    EXPECT_EQ(sum.values, expected.values);
    for (std::int64_t e = 0; e < rows * width; ++e)
      EXPECT_EQ(gradient[e], expected_grad.values[e]) << e;
    for (std::int64_t e = rows * width; e < padded * width; ++e) EXPECT_EQ(gradient[e], 0);
  }
}

}  // namespace
}  // namespace weft
