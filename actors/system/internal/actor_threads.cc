#include "actors/system/internal/actor_threads.h"

#include <mutex>
#include <system_error>
#include <utility>

#include "actors/call/call_frame.h"

namespace weft::actors {

void ActorThreads::run(std::shared_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  if (queue_.size() > idle_) {
    if (threads_.size() < options_.at_once) start_thread();
    else watch_stall();
  }
  // Under the lock: the last piece of work may end the owner of this object.
  if (idle_ > 0) changed_.notify_one();
}

void ActorThreads::start_thread() {
  for (Thread& thread : ended_) thread.join();
  ended_.clear();
  const std::uint64_t number = ++last_number_;
  try {
    threads_.emplace(number, Thread(options_.name, ThreadPriority::kOrdinary,
                                    [this, number] { serve(number); }));
  } catch (const std::system_error&) {
    watch_stall();  // no memory for a thread: tries again, unless others do the work
  }
}

void ActorThreads::watch_stall() {
  if (std::exchange(watched_, true)) return;
  schedule_(kStalledAfter, [this, taken = taken_] { on_stall_check(taken); });
}

void ActorThreads::on_stall_check(std::uint64_t taken_before) {
  const std::lock_guard lock(mutex_);
  watched_ = false;
  if (queue_.empty()) return;
  if (taken_ == taken_before && threads_.size() < options_.most) start_thread();
  watch_stall();
}

void ActorThreads::serve(std::uint64_t number) {
  set_on_actor_thread(!options_.may_block);
  while (const std::shared_ptr<Work> work = next(number)) work->run();
}

std::shared_ptr<ActorThreads::Work> ActorThreads::next(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return !queue_.empty() || stopping_; };
  const auto is_surplus = [this] { return threads_.size() > options_.kept; };
  ++idle_;
  while (!has_work()) {
    if (!is_surplus()) {
      changed_.wait(lock);
    } else if (!changed_.wait_until(lock, SteadyClock().now() + options_.idle_for)) {
      if (!has_work() && is_surplus()) break;
    }
  }
  --idle_;
  if (!queue_.empty()) {
    auto work = std::move(queue_.front());
    queue_.pop_front();
    ++taken_;
    return work;
  }
  if (!stopping_) {
    const auto self = threads_.find(number);
    ended_.push_back(std::move(self->second));
    threads_.erase(self);
  }
  return nullptr;
}

void ActorThreads::stop() {
  std::map<std::uint64_t, Thread> threads;
  std::vector<Thread> ended;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    threads = std::exchange(threads_, {});
    ended = std::exchange(ended_, {});
    changed_.notify_all();
  }
  for (auto& [number, thread] : threads) thread.join();
  for (Thread& thread : ended) thread.join();
}

std::size_t ActorThreads::size() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

}  // namespace weft::actors
