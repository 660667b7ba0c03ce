// Timers of actors.

#include "actors/system/actor_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;

class Clock final {
 public:
  explicit Clock(Context& context) : context_(context), gate_(context.make_wakeup()) {}
  ~Clock() { alive = false; }

  void tick_after(std::chrono::milliseconds time) {
    timer_ = context_.after(time, [this] { tick(); });
  }
  void tick_every(std::chrono::milliseconds time) {
    timer_ = context_.every(time, [this] { tick(); });
  }
  /// Cancels its timer at the third tick.
  void tick_three_times() {
    timer_ = context_.every(1ms, [this] {
      tick();
      if (ticks == 3) timer_.cancel();
    });
  }
  void throw_every(std::chrono::milliseconds time) {
    timer_ = context_.every(time, [this] {
      tick();
      throw Error(ErrorCode::kInternal, "a tick fails");
    });
  }
  void hold_after(std::chrono::hours time) {
    const auto held = std::make_shared<int>(0);
    kept = held;
    timer_ = context_.after(time, [held] { ++*held; });
  }
  void cancel() { timer_.cancel(); }
  void drop() { timer_ = ActorTimer(); }
  bool is_active() const { return timer_.active(); }
  /// Returns the number of ticks that came when the actor was free again.
  task<int> be_busy(std::chrono::milliseconds time) {
    const int before = ticks;
    std::this_thread::sleep_for(time);
    EXPECT_EQ(ticks, before) << "a tick ran beside a handler";
    const Wakeup later = context_.make_wakeup();
    context_.post([later] { later.notify(); });  // runs after the ticks that are queued
    co_await later.wait();
    co_return ticks - before;
  }
  task<> wait_at_gate() { co_await gate_.wait(); }

  static inline std::atomic<int> ticks{0};
  static inline std::atomic<bool> alive{true};
  static inline std::weak_ptr<int> kept;
  static constexpr auto endpoints = interface<"test.clock", 1>(
      on<&Clock::tick_after>("tick_after"), on<&Clock::tick_every>("tick_every"),
      on<&Clock::tick_three_times>("tick_three_times"), on<&Clock::throw_every>("throw_every"),
      on<&Clock::hold_after>("hold_after"), on<&Clock::cancel>("cancel"), on<&Clock::drop>("drop"),
      on<&Clock::is_active>("is_active"), on<&Clock::be_busy>("be_busy"),
      on<&Clock::wait_at_gate>("wait_at_gate"));

 private:
  void tick() {
    EXPECT_TRUE(alive) << "a tick ran after the actor's end";
    EXPECT_EQ(current_actor(), context_.self().actor);
    ++ticks;
  }
  Context& context_;
  Wakeup gate_;
  ActorTimer timer_;
};

class ActorTimers : public ::testing::TestWithParam<ActorThread> {
 protected:
  ActorTimers() : clock_(system_.host<Clock>(GetParam(), "clock")) {
    Clock::ticks = 0;
    Clock::alive = true;
  }
  static bool ticked(int times) {
    return eventually([&] { return Clock::ticks >= times; });
  }
  System system_{test::system_options("process")};
  ActorRef<Clock> clock_;
};
INSTANTIATE_TEST_SUITE_P(Threads, ActorTimers,
                         ::testing::Values(ActorThread::kOwn, ActorThread::kShared),
                         [](const auto& chosen) {
                           return chosen.param == ActorThread::kOwn ? "Own" : "Shared";
                         });

TEST_P(ActorTimers, AfterRunsItsTaskOnce) {
  clock_.call<&Clock::tick_after>(1ms).get();
  EXPECT_TRUE(ticked(1));
  EXPECT_TRUE(eventually([&] { return !clock_.call<&Clock::is_active>().get(); }));
  (void)clock_.call<&Clock::be_busy>(20ms).get();
  EXPECT_EQ(Clock::ticks, 1);
}

TEST_P(ActorTimers, EveryRunsItsTaskUntilItIsCancelledByIt) {
  clock_.call<&Clock::tick_three_times>().get();
  EXPECT_TRUE(ticked(3));
  (void)clock_.call<&Clock::be_busy>(20ms).get();
  EXPECT_EQ(Clock::ticks, 3);
  EXPECT_FALSE(clock_.call<&Clock::is_active>().get());
}

TEST_P(ActorTimers, CancelledDroppedAndReplacedTimersDoNotRun) {
  clock_.call<&Clock::tick_after>(10ms).get();
  clock_.call<&Clock::cancel>().get();
  clock_.call<&Clock::tick_every>(10ms).get();
  clock_.call<&Clock::drop>().get();
  clock_.call<&Clock::tick_every>(10ms).get();
  clock_.call<&Clock::tick_after>(1h).get();
  EXPECT_TRUE(clock_.call<&Clock::is_active>().get());
  EXPECT_EQ(clock_.call<&Clock::be_busy>(50ms).get(), 0);
}

TEST_P(ActorTimers, ADroppedTimerDestroysItsTaskAtOnce) {
  clock_.call<&Clock::hold_after>(1h).get();
  EXPECT_FALSE(Clock::kept.expired());
  clock_.call<&Clock::drop>().get();
  EXPECT_TRUE(Clock::kept.expired());
}

TEST_P(ActorTimers, TicksOfABusyActorDoNotPileUp) {
  clock_.call<&Clock::tick_every>(20ms).get();
  EXPECT_TRUE(ticked(1));
  EXPECT_LE(clock_.call<&Clock::be_busy>(300ms).get(), 3) << "15 were due";
}

TEST_P(ActorTimers, ATaskThatThrowsRunsAgain) {
  clock_.call<&Clock::throw_every>(1ms).get();
  EXPECT_TRUE(ticked(3));
  clock_.call<&Clock::drop>().get();
}

TEST_P(ActorTimers, TasksRunWhileAHandlerIsSuspended) {
  auto wait = clock_.call<&Clock::tick_every>(1ms);
  wait.get();
  auto suspended = clock_.call<&Clock::wait_at_gate>();
  EXPECT_TRUE(ticked(5));
  suspended.cancel();
}

TEST_P(ActorTimers, TimersEndWithTheirActor) {
  clock_.call<&Clock::tick_every>(1ms).get();
  EXPECT_TRUE(ticked(2));
  clock_.stop().get();
  EXPECT_FALSE(Clock::alive);
  const int before = Clock::ticks;
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(Clock::ticks, before);
}

TEST_P(ActorTimers, AnIntervalMustBeAboveZero) {
  const Error error = error_of([&] { clock_.call<&Clock::tick_every>(0ms).get(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "clock: the interval of a timer must be above zero");
}

}  // namespace
}  // namespace weft::actors
