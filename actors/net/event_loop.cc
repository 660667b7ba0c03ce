#include "actors/net/event_loop.h"

#include <mutex>

#include "actors/net/network.h"
#include "core/base/thread.h"

namespace weft::actors {

EventLoop::EventLoop(const std::string& thread_name, ThreadPriority share)
    : io_(ControlNetwork::simulated() ? ControlNetwork::simulated()->make_loop(thread_name)
                                      : make_asio_loop(thread_name, share)) {}

EventLoop::~EventLoop() { stop(); }

void EventLoop::post(std::function<void()> callback) { io_->post(std::move(callback)); }

void EventLoop::run_and_wait(std::function<void()> callback) {
  Mutex mutex;
  Condition changed;
  bool done = false;
  post([&] {
    callback();
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool EventLoop::in_loop() const { return io_->in_loop(); }

void EventLoop::stop() { io_->stop(); }

struct Timer::Impl {
  explicit Impl(EventLoop& loop) : alarm(loop.io().make_alarm()) {}
  std::unique_ptr<IoLoop::Alarm> alarm;
  /// Number of the latest start(). An expiry that is already queued when the timer is cancelled or
  /// destroyed finds another number and does nothing.
  std::shared_ptr<std::uint64_t> start_number = std::make_shared<std::uint64_t>(0);
};

Timer::Timer(EventLoop& loop) : impl_(std::make_unique<Impl>(loop)) {}
Timer::~Timer() { ++*impl_->start_number; }

void Timer::start(TimePoint at, std::function<void()> callback) {
  impl_->alarm->start(at, [callback = std::move(callback), start_number = impl_->start_number,
                           mine = ++*impl_->start_number] {
    if (*start_number == mine) callback();
  });
}

void Timer::start_after(Nanoseconds delay, std::function<void()> callback) {
  start(SteadyClock().now() + delay, std::move(callback));
}

void Timer::cancel() {
  ++*impl_->start_number;
  impl_->alarm->cancel();
}

}  // namespace weft::actors
