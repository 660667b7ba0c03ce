#include "core/tensor/region_codec.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

TEST(RegionCodec, RegionsAndTensorTypesComeBackEqual) {
  const Region region({{0, 4}, {4, 8}});
  EXPECT_EQ(decode<Region>(encode(region)), region);
  EXPECT_EQ(decode<Region>(encode(Region())), Region());
  const TensorType type{DType::kI32, {2, 3, 4}};
  EXPECT_EQ(decode<TensorType>(encode(type)), type);
  const std::vector<Region> list{region, Region()};
  EXPECT_EQ(decode<std::vector<Region>>(encode(list)), list);
}

TEST(RegionCodec, ReversedIntervalsAndUnknownElementTypesAreDamage) {
  const std::vector<Interval> reversed{{5, 5}};
  EXPECT_THAT([&] { (void)decode<Region>(encode(reversed)); },
              test::throws_error(ErrorCode::kDataLoss, "an empty or reversed interval"));
  EXPECT_THAT(
      [&] {
        (void)decode<TensorType>(encode(std::pair<std::uint8_t, Shape>{9, {}}));
      },
      test::throws_error(ErrorCode::kDataLoss, "an enumerator that does not exist"));
  EXPECT_THAT(
      [&] {
        (void)decode<TensorType>(encode(std::pair<std::uint8_t, Shape>{0, {-1}}));
      },
      test::throws_error(ErrorCode::kDataLoss, "a negative extent"));
}

}  // namespace
}  // namespace weft
