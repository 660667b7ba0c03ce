#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

class IoLoop;

/// One thread that waits for sockets and timers and runs short callbacks: the I/O thread of a
/// process.
///
/// Callbacks must not block and must not throw: an exception that leaves one ends the process.
/// Owned by whoever owns the sockets on it; the destructor drops callbacks that have not run and
/// joins the thread. Runs on Asio, or on a simulated world (see Network).
class EventLoop final {
 public:
  explicit EventLoop(const std::string& thread_name, ThreadShare share = ThreadShare::kOrdinary);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs `callback` on the loop's thread, after what was posted before. Any thread.
  void post(std::function<void()> callback);
  /// Runs `callback` on the loop's thread and returns when it has run. Not from the loop's thread.
  void run_and_wait(std::function<void()> callback);
  bool in_loop() const;
  /// Ends the thread; posted callbacks that have not run never will. Not from the loop's thread.
  void stop();

  /// For what is made of the loop's sockets and timers: actors/net alone.
  IoLoop& io() { return *io_; }

 private:
  std::unique_ptr<IoLoop> io_;
};

/// Calls back once, at a time. Loop's thread only; start() again replaces what was started,
/// destruction cancels it.
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
