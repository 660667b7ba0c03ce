#include "actors/supervision/restart_limit.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

using namespace std::chrono_literals;

TEST(RestartLimit, OfNoneAdmitsNone) {
  RestartLimit limit(0, std::chrono::seconds(1));
  EXPECT_FALSE(limit.admit(TimePoint()));
}

TEST(RestartLimit, AdmitsSoManyWithinATimeAndMoreWhenThatHasPassed) {
  RestartLimit limit;
  const TimePoint start{};
  EXPECT_EQ(limit.admit(start), 1u);
  EXPECT_EQ(limit.admit(start + 1min), 2u);
  EXPECT_EQ(limit.admit(start + 2min), 3u);
  EXPECT_EQ(limit.admit(start + 9min), std::nullopt);
  EXPECT_EQ(limit.admit(start + 10min), std::nullopt);
  EXPECT_EQ(limit.admit(start + 10min + 1s), 3u) << "the first is too long ago";
  EXPECT_EQ(limit.admit(start + 10min + 2s), std::nullopt);
}

}  // namespace
}  // namespace weft::actors
