#include "actors/supervision/stopped_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/clock.h"

namespace weft::actors {
namespace {

using ::testing::HasSubstr;

constexpr Nanoseconds kLook = StoppedTimer::kLookEvery;
const StoppedThread kStopped{.thread = 7, .state = 'T', .is_main_thread = true, .name = "gpt"};

TEST(StoppedTimer, TellsOnceWhenEveryLookOfTheWholeLimitHasSeenItStopped) {
  ManualClock clock;
  StoppedTimer timer;
  int told = 0;
  for (Nanoseconds passed{0}; passed < kDeathTimeout; passed += kLook, clock.advance(kLook))
    EXPECT_FALSE(timer.update(kStopped, clock.now())) << in_seconds(passed);
  for (int i = 0; i < 10; ++i, clock.advance(kLook)) {
    const auto text = timer.update(kStopped, clock.now());
    EXPECT_EQ(text.value_or("has been stopped (state T) for 10.0 s"),
              "has been stopped (state T) for 10.0 s");
    told += text ? 1 : 0;
  }
  EXPECT_EQ(told, 1);
}

TEST(StoppedTimer, AProcessThatRanInBetweenRestartsTheTimer) {
  ManualClock clock;
  StoppedTimer timer;
  for (int i = 0; i < 100; ++i, clock.advance(kLook))
    EXPECT_FALSE(timer.update(i % 15 == 14 ? std::nullopt : std::optional(kStopped), clock.now()))
        << i;
}

TEST(StoppedTimer, AnObserverThatWasItselfHeldUpHasSeenNothing) {
  ManualClock clock;
  StoppedTimer timer;
  EXPECT_FALSE(timer.update(kStopped, clock.now()));
  clock.advance(std::chrono::minutes(1));
  EXPECT_FALSE(timer.update(kStopped, clock.now()));
}

TEST(StoppedTimer, NamesTheThreadAndItsTracer) {
  ManualClock clock;
  StoppedTimer timer;
  const StoppedThread traced{
      .thread = 9, .state = 't', .is_main_thread = false, .name = "front[data=0", .tracer = 4};
  std::optional<std::string> text;
  for (int i = 0; !text && i < 100; ++i, clock.advance(kLook))
    text = timer.update(traced, clock.now());
  EXPECT_EQ(
      text.value_or(""),
      "has had its thread 9 (front[data=0) stopped (state t) by its tracer, pid 4 for 10.0 s");
}

TEST(StoppedProcess, ThisOneRuns) { EXPECT_FALSE(find_stopped_thread(::getpid())); }

TEST(Silence, SaysWhatCanBeSeenOfTheProcess) {
  EXPECT_EQ(describe_silence(std::chrono::milliseconds(10'300), 0),
            "has not responded for 10.3 s: stopped, overloaded or disconnected");
  EXPECT_THAT(describe_silence(std::chrono::seconds(10), ::getpid()),
              HasSubstr("although it runs (state "));
}

}  // namespace
}  // namespace weft::actors
