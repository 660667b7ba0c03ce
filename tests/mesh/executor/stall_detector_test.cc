#include "mesh/executor/stall_detector.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace weft::mesh {
namespace {

using namespace std::chrono_literals;
using Kind = StallDetector::Kind;

constexpr std::uint64_t kRun = 3;

DeviceProgress waits(std::uint64_t finished = 10, std::uint64_t moved = 0) {
  DeviceProgress progress;
  progress.position = {"train", kRun, 4, std::nullopt};
  progress.finished = finished;
  progress.moved_bytes = moved;
  return progress;
}

DeviceProgress works(double seconds, std::uint64_t finished = 10) {
  DeviceProgress progress = waits(finished);
  progress.inside = true;
  progress.inside_seconds = seconds;
  return progress;
}

/// Calls look() once a second. Returns the first verdict other than kFine and its second, or kFine
/// if there is none.
template <typename Look>
std::pair<Kind, int> first_verdict(StallDetector& detector, int seconds, Look&& reports_at) {
  ManualClock clock;
  for (int s = 0; s <= seconds; ++s, clock.advance(1s)) {
    const auto verdict = detector.check(reports_at(s), clock.now());
    if (verdict.kind != Kind::kProgressing) return {verdict.kind, s};
  }
  return {Kind::kProgressing, seconds};
}

TEST(StallDetector, AStepOfElevenMinutesInWhichInstructionsEndNowAndThenIsFine) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 660, [](int s) {
    return StallDetector::Reports{waits(), works(s % 50, 10 + static_cast<std::uint64_t>(s) / 50)};
  });
  EXPECT_EQ(kind, Kind::kProgressing);
}

TEST(StallDetector, ATransferThatTakesManyTimesTheLimitButMovesIsFine) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 3600, [](int s) {
    return StallDetector::Reports{waits(10, s / 59), waits()};
  });
  EXPECT_EQ(kind, Kind::kProgressing);
}

TEST(StallDetector, ALongOpIsReportedRepeatedlyAndDoesNotEndTheRun) {
  StallDetector detector({}, kRun);
  ManualClock clock;
  std::vector<int> told;
  for (int s = 0; s <= 200; ++s, clock.advance(1s)) {
    const auto verdict = detector.check({waits(), works(s)}, clock.now());
    if (verdict.kind == Kind::kProgressing) continue;
    EXPECT_EQ(verdict.kind, Kind::kStalled);
    EXPECT_EQ(verdict.device, 1u);
    told.push_back(s);
  }
  EXPECT_EQ(told, (std::vector<int>{60, 120, 180}));
}

TEST(StallDetector, AnOpThatTakesLongerThanTheLongestEndsTheRunAlsoWhileOthersMove) {
  StallDetector detector({.longest_op = 100s}, kRun);
  const auto [kind, at] = first_verdict(detector, 200, [](int s) {
    return StallDetector::Reports{waits(10, s), works(s)};
  });
  EXPECT_EQ(kind, Kind::kOpTooLong);
  EXPECT_EQ(at, 100);
}

TEST(StallDetector, NoProgressWithoutARunningOpIsADeadlock) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 200, [](int) {
    return StallDetector::Reports{waits(), waits()};
  });
  EXPECT_EQ(kind, Kind::kDeadlock);
  EXPECT_EQ(at, 60);
}

TEST(StallDetector, AChunkOnItsWayOverASlowLinkIsFineWhileItsBytesCome) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 600, [](int s) {
    DeviceProgress receives = waits();
    receives.network_bytes = 150 * static_cast<std::uint64_t>(s);  // 1.2 kbit/s
    receives.arriving = 1;
    return StallDetector::Reports{waits(), receives};
  });
  EXPECT_EQ(kind, Kind::kProgressing);
}

TEST(StallDetector, SignsOfLifeAreNoProgressHoweverManySendThem) {
  for (const std::size_t devices : {2, 12, 300}) {
    StallDetector detector({}, kRun);
    const auto [kind, at] = first_verdict(detector, 200, [&](int s) {
      DeviceProgress beats = waits();
      beats.network_bytes = 5 * devices * (s / 20);
      return StallDetector::Reports(devices, beats);
    });
    EXPECT_EQ(kind, Kind::kDeadlock) << devices;
    EXPECT_EQ(at, 60) << devices;
  }
}

TEST(StallDetector, AChunkThatHasStoppedOnItsWayEndsTheRunLikeADeadlock) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 200, [](int) {
    DeviceProgress receives = waits();
    receives.arriving = 1;
    return StallDetector::Reports{waits(), receives};
  });
  EXPECT_EQ(kind, Kind::kDeadlock);
  EXPECT_EQ(at, 60);
}

TEST(StallDetector, ADeviceThatDoesNotAnswerDoesNotDelayTheVerdict) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 70, [](int) {
    return StallDetector::Reports{waits(), std::nullopt};
  });
  EXPECT_EQ(kind, Kind::kStalled);
}

TEST(StallDetector, TimeBeforeTheStepBeginsDoesNotCount) {
  StallDetector detector({}, kRun);
  const auto [kind, at] = first_verdict(detector, 200, [](int s) {
    DeviceProgress queued = waits();
    if (s < 100) queued.position.execution_number = kRun - 1;
    return StallDetector::Reports{queued};
  });
  EXPECT_EQ(kind, Kind::kDeadlock);
  EXPECT_EQ(at, 159);  // 60 s after the device was last in the queue
}

}  // namespace
}  // namespace weft::mesh
