#include "actors/supervision/silence_timer.h"

#include <gtest/gtest.h>

namespace weft::actors {
namespace {

using namespace std::chrono_literals;

TimePoint at(Nanoseconds since_start) { return TimePoint(since_start); }

TEST(SilenceTimer, CountsTheSilenceSinceSomethingCame) {
  SilenceTimer lease(1s);
  lease.renew(at(10s));
  EXPECT_EQ(lease.update(at(10500ms)), 500ms);
  EXPECT_EQ(lease.update(at(11500ms)), 1500ms);
  lease.renew(at(11600ms));
  EXPECT_EQ(lease.update(at(12500ms)), 900ms);
}

TEST(SilenceTimer, BeginsWithTheFirstLookWhereNothingHasComeYet) {
  SilenceTimer lease(1s);
  EXPECT_EQ(lease.update(at(50s)), 0s);
  EXPECT_EQ(lease.update(at(51s)), 1s);
}

TEST(SilenceTimer, ALateLookCountsNoMoreThanWasWatched) {
  SilenceTimer lease(1s);
  lease.renew(at(0s));
  EXPECT_EQ(lease.update(at(1s)), 1s);
  // Stopped for a minute: heartbeats that arrived meanwhile are read only after this look.
  EXPECT_EQ(lease.update(at(61s)), 2500ms);
  EXPECT_EQ(lease.update(at(62s)), 3500ms);
}

TEST(SilenceTimer, JitterOfABusyMachineIsCounted) {
  SilenceTimer lease(1s);
  lease.renew(at(0s));
  EXPECT_EQ(lease.update(at(1400ms)), 1400ms);
  EXPECT_EQ(lease.update(at(2500ms)), 2500ms);
}

/// Starved machine: the observer and its peers run once in five seconds.
TEST(SilenceTimer, AnObserverThatHardlyRunsGivesTheOthersTimeToo) {
  SilenceTimer lease(1s);
  lease.renew(at(0s));
  Nanoseconds silence{0};
  for (int i = 1; i <= 6; ++i) silence = lease.update(at(5s * i));
  EXPECT_EQ(silence, 9s);
}

}  // namespace
}  // namespace weft::actors
