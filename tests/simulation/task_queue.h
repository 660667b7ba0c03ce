#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "core/base/thread.h"
#include "tests/simulation/world.h"

namespace weft::simulation {

/// Simulated thread that runs tasks in order. Threads and events add tasks. Tasks of an ended
/// process are dropped.
class TaskQueue final : public std::enable_shared_from_this<TaskQueue> {
 public:
  static std::shared_ptr<TaskQueue> start(World& world, const std::string& thread_name) {
    auto queue = std::shared_ptr<TaskQueue>(new TaskQueue(world));
    queue->thread_ = Thread(thread_name, ThreadPriority::kControl, [queue] { queue->run(); });
    return queue;
  }
  ProcessNumber process() const { return process_; }
  bool in_thread() const { return thread_.is_current(); }

  void add(std::function<void()> task) {
    if (stopped_ || !world_.alive(process_)) return;
    tasks_.push_back(std::move(task));
    world_.wake(this, true);
  }
  /// Drops queued tasks and waits for the running task; on the queue's own thread, only drops. Call
  /// from the same process.
  void stop() {
    stopped_ = true;
    world_.wake(this, true);
    if (thread_.joinable()) {
      if (thread_.is_current()) thread_.detach();
      else thread_.join();
    }
    tasks_.clear();
  }

 private:
  explicit TaskQueue(World& world) : world_(world), process_(world.current_process()) {}
  void run() {
    while (!stopped_) {
      if (tasks_.empty()) {
        world_.wait(this, TimePoint::max());
        continue;
      }
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

  World& world_;
  const ProcessNumber process_;
  bool stopped_ = false;
  std::deque<std::function<void()>> tasks_;
  Thread thread_;
};

}  // namespace weft::simulation
