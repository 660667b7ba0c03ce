#include "actors/system/internal/loop_timers.h"

#include <utility>

namespace weft::actors {

void LoopTimers::run_after(Nanoseconds delay, std::function<void()> callback) {
  loop_.post([this, delay, callback = std::move(callback)]() mutable {
    auto timer = std::make_shared<Timer>(loop_);
    timers_.insert(timer);
    timer->start_after(delay, [this, raw = timer.get(), callback = std::move(callback)] {
      callback();
      for (auto each = timers_.begin(); each != timers_.end(); ++each)
        if (each->get() == raw) {
          timers_.erase(each);
          break;
        }
    });
  });
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
