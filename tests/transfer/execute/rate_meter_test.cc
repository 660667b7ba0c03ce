#include "transfer/execute/rate_meter.h"

#include <gtest/gtest.h>

namespace weft::transfer {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) { return TimePoint() + milliseconds(ms); }

TEST(RateMeter, IsBytesOverTimeFromCompletionToCompletion) {
  RateMeter meter;
  for (int i = 1; i <= 10; ++i) meter.completed(1000, true, at(10 * i));
  EXPECT_EQ(meter.rate(), std::nullopt) << "90 ms since the first completion";
  meter.completed(1000, true, at(110));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5) << "10 completions in 100 ms; the first one began the window";
}

TEST(RateMeter, IdleMomentsDoNotCount) {
  RateMeter meter;
  for (int burst = 0; burst < 20; ++burst) {
    // 50 ms at 1e5 bytes/s, then nothing for a second.
    for (int i = 0; i <= 5; ++i) meter.completed(1000, i < 5, at(1050 * burst + 10 * i));
  }
  EXPECT_EQ(meter.rate(), std::nullopt) << "no window was busy throughout";
  for (int i = 0; i <= 10; ++i) meter.completed(1000, true, at(30000 + 10 * i));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5);
  meter.idle();
  for (int i = 0; i <= 10; ++i) meter.completed(1000, true, at(90000 + 10 * i));
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1e5) << "the minute in between is not in any window";
}

TEST(RateMeter, FollowsALinkThatChanges) {
  RateMeter meter;
  int now = 0;
  for (int i = 0; i < 100; ++i) meter.completed(1000, true, at(now += 10));
  EXPECT_NEAR(meter.rate().value(), 1e5, 1);
  for (int i = 0; i < 11; ++i) meter.completed(500, true, at(now += 10));
  EXPECT_GT(meter.rate().value(), 6e4) << "one slow window is not believed at once";
  for (int i = 0; i < 200; ++i) meter.completed(500, true, at(now += 10));
  EXPECT_NEAR(meter.rate().value(), 5e4, 500);
}

}  // namespace
}  // namespace weft::transfer
