#include "core/graph/fill_parameter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

constexpr Initializer kNormal{Initializer::Kind::kNormal, 0.5};

std::vector<float> fill(const Shape& shape, const Region& region,
                        const Initializer& initializer = kNormal, std::uint64_t seed = 7,
                        std::string_view name = "w", unsigned threads = 1) {
  std::vector<float> values(region.num_elements());
  fill_parameter(name, shape, region, initializer, seed, values, threads);
  return values;
}

TEST(FillParameter, AnyRegionHasTheValuesOfTheWhole) {
  const Shape shape{5, 3, 7};
  const auto whole = fill(shape, Region::whole(shape));
  const Region part({{1, 4}, {0, 3}, {2, 7}});
  std::vector<float> expected(part.num_elements());
  copy_region(part, sizeof(float), Region::whole(shape), std::as_bytes(std::span(whole)), part,
              std::as_writable_bytes(std::span(expected)));
  EXPECT_EQ(fill(shape, part), expected);
}

TEST(FillParameter, NormalNumbersHaveTheMomentsAskedFor) {
  const Shape shape{100, 1000};
  const auto values = fill(shape, Region::whole(shape));
  double sum = 0, squares = 0, fourth = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  const double n = values.size();
  EXPECT_NEAR(sum / n, 0, 0.006);
  EXPECT_NEAR(squares / n, 0.25, 0.005);
  EXPECT_NEAR(fourth / n, 3 * 0.0625, 0.01);  // a normal distribution has kurtosis 3
}

/// Chunks begin inside rows and inside the groups of four elements that share random words.
TEST(FillParameter, AnyNumberOfThreadsGivesEqualBits) {
  constexpr auto kChunk = static_cast<std::int64_t>(kFillChunk);
  std::vector<std::pair<Shape, Region>> cases;
  for (const std::int64_t size : {kChunk - 1, kChunk, kChunk + 1, 3 * kChunk - 1, 3 * kChunk + 2})
    cases.emplace_back(Shape{size}, Region::whole(Shape{size}));
  cases.emplace_back(Shape{301, 3, 113}, Region({{1, 301}, {0, 3}, {2, 113}}));
  cases.emplace_back(Shape{301, 333}, Region({{2, 303}, {1, 340}}));  // with padding
  for (const auto& [shape, region] : cases) {
    for (const Initializer::Kind kind :
         {Initializer::Kind::kZeros, Initializer::Kind::kOnes, Initializer::Kind::kNormal}) {
      const auto one = fill(shape, region, {kind, 0.5}, 7, "w", 1);
      for (const unsigned threads : {2u, 3u, 16u})
        EXPECT_TRUE(fill(shape, region, {kind, 0.5}, 7, "w", threads) == one)
            << to_string(region) << " of " << to_string(shape) << ", " << threads << " threads";
    }
  }
}

TEST(FillParameter, SeedAndNameMakeADifference) {
  const Shape shape{4, 4};
  const Region whole = Region::whole(shape);
  EXPECT_NE(fill(shape, whole), fill(shape, whole, kNormal, 8));
  EXPECT_NE(fill(shape, whole), fill(shape, whole, kNormal, 7, "v"));
}

TEST(FillParameter, ZerosOnesAndScalars) {
  EXPECT_EQ(fill({2}, Region::whole(Shape{2}), {Initializer::Kind::kOnes, 0}),
            (std::vector<float>{1, 1}));
  EXPECT_EQ(fill({2}, Region::whole(Shape{2}), {Initializer::Kind::kZeros, 0}),
            (std::vector<float>{0, 0}));
  EXPECT_EQ(fill({}, Region{}).size(), 1u);
}

TEST(FillParameter, FillsPaddingBeyondTheShapeWithZeros) {
  const Shape shape{3, 5};
  const std::vector<float> inside = fill(shape, Region({{1, 3}, {3, 5}}));
  EXPECT_EQ(fill(shape, Region({{1, 4}, {3, 6}})),
            (std::vector<float>{inside[0], inside[1], 0, inside[2], inside[3], 0, 0, 0, 0}));
  EXPECT_EQ(fill(shape, Region({{3, 4}, {0, 2}}), {Initializer::Kind::kOnes, 0}),
            (std::vector<float>{0, 0}));
}

TEST(FillParameter, RefusesValuesOfAnotherSize) {
  std::vector<float> values(3);
  EXPECT_THAT(
      [&] {
        fill_parameter("w", {4}, Region({{2, 4}}), kNormal, 1, values);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "of 'w' [4] into 3 values"));
}

}  // namespace
}  // namespace weft
