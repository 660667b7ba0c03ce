#include "core/tensor/region_codec.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

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
  try {
    (void)decode<Region>(encode(reversed));
    FAIL() << "accepted an empty interval";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  }
  EXPECT_THROW((void)decode<TensorType>(encode(std::pair<std::uint8_t, Shape>{9, {}})), Error);
  EXPECT_THROW((void)decode<TensorType>(encode(std::pair<std::uint8_t, Shape>{0, {-1}})), Error);
}

}  // namespace
}  // namespace weft
