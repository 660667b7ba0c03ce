#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

class IoLoop;

/// I/O thread of a process: waits for sockets and timers and runs short callbacks.
///
/// Callbacks must not block and must not throw: an escaping exception ends the process. Owned by
/// the owner of the sockets on it. The destructor drops callbacks that have not run and joins the
/// thread. Runs on Asio, or in a simulated world (see ControlNetwork).
class EventLoop final {
 public:
  explicit EventLoop(const std::string& thread_name,
                     ThreadPriority share = ThreadPriority::kOrdinary);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs `callback` on the loop's thread, after earlier posts. Any thread.
  void post(std::function<void()> callback);
  /// Runs `callback` on the loop's thread and blocks until it returns. Not from the loop's thread.
  void run_and_wait(std::function<void()> callback);
  bool in_loop() const;
  /// Ends the thread and drops callbacks that have not run. Not from the loop's thread.
  void stop();

  /// Returns the underlying loop, for actors/net only.
  IoLoop& io() { return *io_; }

 private:
  std::unique_ptr<IoLoop> io_;
};

/// One-shot timer. Loop's thread only. start() replaces an earlier start(); destruction cancels.
class Timer final {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(TimePoint at, std::function<void()> callback);
  void start_after(Nanoseconds delay, std::function<void()> callback);
  void cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::actors
