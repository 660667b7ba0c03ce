#include "actors/net/event_loop.h"

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <future>

#include "actors/net/internal/asio_loop.h"

namespace weft::actors {

EventLoop::EventLoop(const std::string& thread_name) : impl_(std::make_unique<Impl>()) {
  impl_->thread =
      Thread(thread_name, ThreadShare::kControl, [impl = impl_.get()] { impl->context.run(); });
}

EventLoop::~EventLoop() { stop(); }

void EventLoop::post(std::function<void()> callback) {
  asio::post(impl_->context, std::move(callback));
}

void EventLoop::run_and_wait(std::function<void()> callback) {
  std::promise<void> done;
  post([&] {
    callback();
    done.set_value();
  });
  done.get_future().wait();
}

bool EventLoop::in_loop() const { return impl_->thread.is_current(); }

void EventLoop::stop() {
  impl_->work.reset();
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

struct Timer::Impl {
  explicit Impl(EventLoop& loop) : timer(loop.impl().context) {}
  asio::steady_timer timer;
  /// Which start() counts. An expiry may already be queued when the timer is cancelled or
  /// destroyed: it finds another number.
  std::shared_ptr<std::uint64_t> turn = std::make_shared<std::uint64_t>(0);
};

Timer::Timer(EventLoop& loop) : impl_(std::make_unique<Impl>(loop)) {}
Timer::~Timer() { ++*impl_->turn; }

void Timer::start(TimePoint at, std::function<void()> callback) {
  impl_->timer.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
  impl_->timer.async_wait([callback = std::move(callback), turn = impl_->turn,
                           mine = ++*impl_->turn](const asio::error_code& error) {
    if (!error && *turn == mine) callback();
  });
}

void Timer::start_after(Nanoseconds delay, std::function<void()> callback) {
  start(SteadyClock().now() + delay, std::move(callback));
}

void Timer::cancel() {
  ++*impl_->turn;
  impl_->timer.cancel();
}

}  // namespace weft::actors
