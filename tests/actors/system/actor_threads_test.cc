#include "actors/system/internal/actor_threads.h"

#include <gtest/gtest.h>

#include <deque>
#include <latch>
#include <mutex>
#include <set>

#include "actors/call/call_frame.h"
#include "tests/support/eventually.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;

class Task final : public ActorThreads::Work {
 public:
  explicit Task(std::function<void()> task) : task_(std::move(task)) {}
  void run() override { task_(); }

 private:
  std::function<void()> task_;
};
std::shared_ptr<Task> make_task(std::function<void()> task) {
  return std::make_shared<Task>(std::move(task));
}

/// Timer that the test fires.
class ManualTimer final {
 public:
  ActorThreads::Schedule schedule() {
    return [this](Nanoseconds, std::function<void()> then) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(then));
    };
  }
  /// Runs the callbacks that wait. Returns their number.
  int fire() {
    std::deque<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      due = std::exchange(waiting_, {});
    }
    for (const auto& then : due) then();
    return static_cast<int>(due.size());
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

// Latches outlive the threads, which may still look at them after they are open.
TEST(ActorThreads, ThreadsStartWhenWorkNeedsThem) {
  ManualTimer timer;
  std::latch both(2);
  ActorThreads threads({"test", 2, 2, 2}, timer.schedule());
  EXPECT_EQ(threads.size(), 0u);
  for (int i = 0; i < 2; ++i) threads.run(make_task([&] { both.arrive_and_wait(); }));
  both.wait();
  EXPECT_EQ(threads.size(), 2u);
}

TEST(ActorThreads, WorkRunsInOrderOnOneThreadThatMustNotBlock) {
  ManualTimer timer;
  std::vector<int> order;
  {
    ActorThreads threads({"test", 1, 1, 1}, timer.schedule());
    for (int i = 0; i < 100; ++i)
      threads.run(make_task([&, i] {
        EXPECT_TRUE(on_actor_thread());
        order.push_back(i);
      }));
  }
  ASSERT_EQ(order.size(), 100u) << "stop() finishes queued work";
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(ActorThreads, AnotherThreadStartsIfAllAreStalledAndEndsWhenIdle) {
  ManualTimer timer;
  std::latch release(1), second(1), third(1);
  ActorThreads threads({"test", 1, 1, 2, false, 10ms}, timer.schedule());
  threads.run(make_task([&] { release.wait(); }));
  threads.run(make_task([&] { second.count_down(); }));
  // The first piece of work has begun since, or will.
  EXPECT_TRUE(eventually([&] {
    timer.fire();
    return second.try_wait();
  }));
  EXPECT_EQ(threads.size(), 2u);
  release.count_down();
  EXPECT_TRUE(eventually([&] { return threads.size() == 1; }));
  threads.run(make_task([&] { third.count_down(); }));
  third.wait();
}

TEST(ActorThreads, NoMoreThreadsStartThanTheMost) {
  ManualTimer timer;
  std::latch begun(3), release(1);
  ActorThreads threads({"test", 1, 1, 3}, timer.schedule());
  for (int i = 0; i < 5; ++i)
    threads.run(make_task([&, i] {
      if (i < 3) begun.count_down();
      release.wait();
    }));
  EXPECT_TRUE(eventually([&] {
    timer.fire();
    return begun.try_wait();
  }));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(timer.fire(), 1) << "it watches as long as work waits";
  EXPECT_EQ(threads.size(), 3u);
  release.count_down();
}

TEST(ActorThreads, NoThreadIsAddedWhileWorkIsTaken) {
  ManualTimer timer;
  std::latch first_begun(1), first(1), second_begun(1), second(1);
  ActorThreads threads({"test", 1, 1, 2}, timer.schedule());
  threads.run(make_task([&] {
    first_begun.count_down();
    first.wait();
  }));
  first_begun.wait();
  for (int i = 0; i < 2; ++i)
    threads.run(make_task([&, i] {
      if (i > 0) return;
      second_begun.count_down();
      second.wait();
    }));
  first.count_down();
  second_begun.wait();
  EXPECT_EQ(timer.fire(), 1) << "set when the second piece of work had to wait";
  EXPECT_EQ(threads.size(), 1u);
  second.count_down();
}

}  // namespace
}  // namespace weft::actors
