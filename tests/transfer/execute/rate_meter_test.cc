#include "transfer/execute/rate_meter.h"

#include <gtest/gtest.h>

namespace weft::transfer {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) { return TimePoint() + milliseconds(ms); }

TEST(RateMeter, IsBytesOverTimeFromCompletionToCompletion) {
  RateMeter meter;
  for (int i = 1; i <= 30; ++i) meter.completed(1000, true, at(10 * i));
  EXPECT_EQ(meter.rate(), std::nullopt) << "290 ms since the first completion: two windows";
  meter.completed(1000, true, at(310));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5)
      << "ten completions in 100 ms; the very first one began the first window";
}

TEST(RateMeter, IdleMomentsDoNotCount) {
  RateMeter meter;
  for (int burst = 0; burst < 20; ++burst) {
    // 50 ms at 1e5 bytes/s, then one idle second.
    for (int i = 0; i <= 5; ++i) meter.completed(1000, i < 5, at(1050 * burst + 10 * i));
  }
  EXPECT_EQ(meter.rate(), std::nullopt) << "no window was busy throughout";
  for (int burst = 0; burst < 3; ++burst) {
    for (int i = 0; i <= 10; ++i) meter.completed(1000, true, at(60000 * (burst + 1) + 10 * i));
    meter.idle();
  }
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5) << "the minutes in between are not in any window";
}

TEST(RateMeter, AStarvedProcessIsNotASlowLink) {
  RateMeter meter;
  int now = 0;
  for (int i = 0; i < 41; ++i) meter.completed(1000, true, at(now += 10));
  meter.completed(1000, true, at(now += 2000));
  for (int i = 0; i < 10; ++i) meter.completed(100, true, at(now += 10));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5);
}

TEST(RateMeter, FollowsALinkThatStaysSlow) {
  RateMeter meter;
  int now = 0;
  for (int i = 0; i < 101; ++i) meter.completed(1000, true, at(now += 10));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5);
  for (int i = 0; i < 80; ++i) meter.completed(500, true, at(now += 10));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 5e4) << "eight windows";
}

}  // namespace
}  // namespace weft::transfer
