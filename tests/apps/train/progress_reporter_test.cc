#include "apps/train/progress_reporter.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::apps {
namespace {

using std::chrono::milliseconds;

TEST(ProgressReporter, TellsAtMostOnceASecondAndTheNewestStepAtTheEnd) {
  std::vector<std::int64_t> told;
  ProgressReporter reporter(
      [&](const actors::RunProgress& progress) { told.push_back(progress.step); });
  const auto step = [&](std::int64_t number, milliseconds at) {
    reporter.report({number, 10, 1.0, 1.0, "tokens", 0}, TimePoint() + at);
  };
  step(1, milliseconds(0));
  step(2, milliseconds(400));
  step(3, milliseconds(900));
  EXPECT_EQ(told, (std::vector<std::int64_t>{1}));
  step(4, milliseconds(1100));
  step(5, milliseconds(1200));
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 4}));
  reporter.flush_progress();
  reporter.flush_progress();
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 4, 5}));
  step(6, milliseconds(1300));
  reporter.discard_pending();
  reporter.flush_progress();
  EXPECT_EQ(told.back(), 5) << "training has gone back";
  step(10, milliseconds(1400));
  EXPECT_EQ(told.back(), 10) << "the last step is told at once";
  ProgressReporter nobody({});
  nobody.report({1, 10, 1.0, 1.0, "tokens", 0}, TimePoint());
}

}  // namespace
}  // namespace weft::apps
