#include "core/base/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace weft {
namespace {

constexpr int kControlNice = -10;

}  // namespace

int ordinary_nice() { return ::getpriority(PRIO_PROCESS, ::getpid()); }

void set_thread_priority(ThreadPriority share) {
  if (Platform::simulated() != nullptr) return;
  const int nice = ordinary_nice();
  // Ignores a failure: without permission the thread keeps ordinary priority.
  ::setpriority(PRIO_PROCESS, ::gettid(),
                share == ThreadPriority::kControl ? std::min(nice, kControlNice) : nice);
}

Thread::Thread(const std::string& name, ThreadPriority share, std::function<void()> run) {
  if (Platform* platform = Platform::simulated()) {
    simulated_ = platform->start_thread(name, std::move(run));
    return;
  }
  real_ = std::thread([name = name.substr(0, 15), share, run = std::move(run)] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    set_thread_priority(share);
    run();
  });
}

void Thread::join() {
  if (simulated_ == 0) return real_.join();
  Platform::simulated()->join_thread(std::exchange(simulated_, 0));
}

void Thread::detach() {
  if (simulated_ == 0) return real_.detach();
  simulated_ = 0;
}

bool Thread::is_current() const {
  if (simulated_ == 0) return real_.get_id() == std::this_thread::get_id();
  return simulated_ == Platform::simulated()->current_thread();
}

void Mutex::lock_simulated() {
  while (held_) Platform::simulated()->wait(this, TimePoint::max());
  held_ = true;
}

void Mutex::unlock_simulated() {
  held_ = false;
  Platform::simulated()->wake(this, false);
}

void Condition::notify_one() {
  if (Platform* platform = Platform::simulated()) return platform->wake(this, false);
  real_.notify_one();
}

void Condition::notify_all() {
  if (Platform* platform = Platform::simulated()) return platform->wake(this, true);
  real_.notify_all();
}

bool Condition::wait_until(std::unique_lock<Mutex>& lock, TimePoint until) {
  if (Platform* platform = Platform::simulated()) {
    lock.unlock();
    const bool woken = platform->wait(this, until);
    lock.lock();
    return woken;
  }
  std::unique_lock<std::mutex> inner(lock.mutex()->real_, std::adopt_lock);
  bool woken = true;
  if (until == TimePoint::max()) real_.wait(inner);
  else woken = real_.wait_until(inner, until) == std::cv_status::no_timeout;
  inner.release();
  return woken;
}

}  // namespace weft
