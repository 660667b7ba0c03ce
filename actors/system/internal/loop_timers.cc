#include "actors/system/internal/loop_timers.h"

#include <utility>

namespace weft::actors {

std::uint64_t LoopTimers::run_after(Nanoseconds delay, std::function<void()> callback) {
  const std::uint64_t id = ++last_id_;
  loop_.post([this, id, delay, callback = std::move(callback)]() mutable {
    const auto timer = timers_.emplace(id, std::make_unique<Timer>(loop_)).first;
    timer->second->start_after(delay, [this, id, callback = std::move(callback)] {
      callback();
      // The end of the timer destroys this function.
      const std::uint64_t ended = id;
      timers_.erase(ended);
    });
  });
  return id;
}

void LoopTimers::cancel(std::uint64_t id) {
  loop_.post([this, id] { timers_.erase(id); });
}

void LoopTimers::run_every(Nanoseconds interval, std::function<void()> callback) {
  repeat(interval, std::make_shared<std::function<void()>>(std::move(callback)));
}

void LoopTimers::repeat(Nanoseconds interval,
                        const std::shared_ptr<std::function<void()>>& callback) {
  run_after(interval, [this, interval, callback] {
    (*callback)();
    repeat(interval, callback);
  });
}

}  // namespace weft::actors
