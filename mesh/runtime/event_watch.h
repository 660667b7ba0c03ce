#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "core/device/device.h"

namespace weft::mesh {

/// Watch that calls back when events of one stream are done. Its thread, started with the first
/// event, waits for them in the order in which they were recorded. Any thread.
class EventWatch final {
 public:
  /// Callback with the time at which the event was seen to be done, or the error of the work before
  /// it.
  using Callback = std::function<void(const Outcome<TimePoint>&)>;

  /// `clock` must outlive it.
  explicit EventWatch(const Clock& clock);
  /// Blocks until all events are done and all callbacks have run.
  ~EventWatch();
  EventWatch(const EventWatch&) = delete;
  EventWatch& operator=(const EventWatch&) = delete;

  /// Calls `callback` once, on the watch's thread, when the event is done. It must neither block
  /// nor throw.
  void watch(std::shared_ptr<const Event> event, Callback callback);

 private:
  void run();

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::shared_ptr<const Event>, Callback>> watched_;  // guarded by mutex_
  bool ending_ = false;                                                    // guarded by mutex_
  std::thread thread_;                                                     // guarded by mutex_
};

}  // namespace weft::mesh
