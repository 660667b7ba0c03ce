#include "mesh/runtime/event_watch.h"

#include "core/base/error.h"

namespace weft::mesh {

EventWatch::EventWatch(const Clock& clock) : clock_(clock) {}

EventWatch::~EventWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EventWatch::watch(std::shared_ptr<const Event> event, Callback callback) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  watched_.emplace_back(std::move(event), std::move(callback));
  changed_.notify_one();
}

void EventWatch::run() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !watched_.empty(); });
    if (watched_.empty()) return;
    const auto [event, callback] = std::move(watched_.front());
    watched_.pop_front();
    lock.unlock();
    Outcome<TimePoint> seen = TimePoint();
    try {
      event->synchronize();
      seen = clock_.now();
    } catch (...) {
      seen = current_error();
    }
    callback(seen);
  }
}

}  // namespace weft::mesh
