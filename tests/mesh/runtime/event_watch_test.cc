#include "mesh/runtime/event_watch.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "core/base/error.h"

namespace weft::mesh {
namespace {

/// Event that completes or fails when a test calls end().
class HandEvent final : public Event {
 public:
  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void synchronize() const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    if (fails_) throw_error(ErrorCode::kDataLoss, "a bit has flipped");
  }
  void end(bool fails = false) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    fails_ = fails;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;   // guarded by mutex_
  bool fails_ = false;  // guarded by mutex_
};

TEST(EventWatch, TellsOfEventsInTheirOrderAndOfFailuresAndEndsWithTheLast) {
  const SteadyClock clock;
  const TimePoint before = clock.now();
  // Written by the watch's thread until the watch is destroyed.
  std::vector<std::pair<int, Outcome<TimePoint>>> seen;
  {
    EventWatch watch(clock);
    std::vector<std::shared_ptr<HandEvent>> events;
    for (int i = 0; i < 4; ++i) {
      events.push_back(std::make_shared<HandEvent>());
      watch.watch(events.back(),
                  [&seen, i](const Outcome<TimePoint>& at) { seen.emplace_back(i, at); });
    }
    events[3]->end();
    events[1]->end(true);
    events[0]->end();
    events[2]->end();
  }
  ASSERT_EQ(seen.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(seen[static_cast<std::size_t>(i)].first, i);
    EXPECT_EQ(seen[static_cast<std::size_t>(i)].second.ok(), i != 1);
  }
  EXPECT_EQ(seen[1].second.error().code(), ErrorCode::kDataLoss);
  EXPECT_GE(seen[0].second.value(), before);
  EXPECT_GE(seen[3].second.value(), seen[0].second.value());
}

}  // namespace
}  // namespace weft::mesh
