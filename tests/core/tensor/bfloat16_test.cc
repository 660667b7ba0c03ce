#include "core/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

float rounded(float value) { return static_cast<float>(BFloat16(value)); }

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(rounded(1.0f), 1.0f);
  EXPECT_EQ(rounded(1.0f + 0x1p-8f), 1.0f) << "a tie, down to the even one";
  EXPECT_EQ(rounded(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f) << "a tie, up to the even one";
  EXPECT_EQ(rounded(1.0f + 0x1p-8f + 0x1p-20f), 1.0f + 0x1p-7f);
  EXPECT_EQ(rounded(-3.140625f), -3.140625f);
}

TEST(BFloat16, KeepsNanAndOverflowsToInfinity) {
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))))
      << "its payload is in the half that is dropped";
  EXPECT_EQ(rounded(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(rounded(-0.0f)));
}

}  // namespace
}  // namespace weft
