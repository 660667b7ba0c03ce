#include "tests/bench/op_rates/seconds_per_run.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

/// Clock that the test advances.
class TestClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(double seconds) { now_ += Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)); }

 private:
  TimePoint now_{};
};

TEST(SecondsPerRun, ExcludesOneTimeCosts) {
  TestClock clock;
  std::int64_t largest = 0;
  const auto run = [&](std::int64_t count) {
    largest = std::max(largest, count);
    clock.advance(5e-5 + 2e-6 * static_cast<double>(count));
  };
  EXPECT_NEAR(seconds_per_run(clock, run, 0.1), 2e-6, 1e-9);
  EXPECT_GT(largest, 100) << "the budget allows more runs";
}

TEST(SecondsPerRun, IgnoresSlowRepeats) {
  TestClock clock;
  int call = 0;
  const auto run = [&](std::int64_t count) {
    const double disturbed = ++call % 3 == 0 ? 1 : 0;
    clock.advance(1e-3 * static_cast<double>(count) + disturbed);
  };
  EXPECT_NEAR(seconds_per_run(clock, run, 100), 1e-3, 1e-6);
}

TEST(SecondsPerRun, RunsSlowWorkFiveTimes) {
  TestClock clock;
  std::int64_t runs = 0;
  const auto run = [&](std::int64_t count) {
    runs += count;
    clock.advance(static_cast<double>(count));
  };
  EXPECT_NEAR(seconds_per_run(clock, run, 0.01), 1, 1e-6);
  EXPECT_EQ(runs, 5);
}

TEST(SecondsPerRun, StaysPositiveIfNoiseExceedsTheWork) {
  TestClock clock;
  const auto run = [&](std::int64_t count) { clock.advance(count == 1 ? 2 : 1); };
  EXPECT_NEAR(seconds_per_run(clock, run, 0), 1.0 / 3, 1e-6);
}

}  // namespace
}  // namespace weft::test
