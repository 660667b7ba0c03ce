#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/strong_id.h"

namespace weft {

using TaskId = StrongId<struct TaskTag>;

/// What tasks that move something share.
struct SharedLinks {
  enum class Sharing : std::uint8_t {
    kFair,    ///< What is under way shares every link by max-min fairness.
    kInTurn,  ///< A link carries one at a time, first come first served.
  };
  Sharing sharing = Sharing::kFair;
  std::vector<double> rates;  ///< By link: what it carries a second, in any unit.
  std::size_t queues = 0;
  std::vector<double> buffers;  ///< By buffer: what it holds of what has come too early.
};

/// A task that lasts as long as links let it.
struct Movement {
  struct Crossing {
    std::uint32_t link = 0;
    double times = 1;  ///< What the link carries for each unit of `amount`.
  };
  /// In which it takes a place while it moves. Who could have moved first, but for receivers, goes
  /// first.
  struct Queue {
    std::uint32_t index = 0;
    /// It moves with less where those before it leave less, and is slower by as much.
    double place = 1;
    double places = 1;  ///< That those before it and it may take together.
  };
  /// Who must be ready to receive, besides what the task waits for; till then `buffer` keeps what
  /// comes.
  struct Receiver {
    TaskId ready;  ///< When this task is over, which must take no time.
    std::uint32_t buffer = 0;
  };

  double amount = 0;
  std::vector<Crossing> crossings;
  double weight = 1;  ///< Of its share where it meets others on a link.
  std::optional<Queue> queue;
  double latency = 0;  ///< From when the last of it has left till it is over.
  std::vector<Receiver> receivers;
  /// It moves early, while receivers are not ready, in whole chunks of this size, or whole, as far
  /// as their buffers have room; 0: not at all.
  double early_chunk = 0;
};

/// Tasks that wait for each other: one step of a schedule, of programs, or of anything that takes
/// time. A task lasts some seconds, or moves something over links. A value.
class TaskGraph {
 public:
  TaskId add(double seconds = 0);
  TaskId add(Movement movement);
  /// `task` starts when `first` is over, at the earliest.
  void wait(TaskId task, TaskId first) { arcs_.push_back({first, task}); }

  std::size_t size() const { return seconds_.size(); }
  double seconds(TaskId task) const { return seconds_[task.value()]; }
  /// Nothing for a task that lasts some seconds.
  const Movement* movement(TaskId task) const {
    const std::uint32_t index = movement_of_[task.value()];
    return index == kNone ? nullptr : &movements_[index];
  }
  /// Movements are numbered in the order in which they were added.
  std::size_t num_movements() const { return movements_.size(); }
  std::size_t movement_number(TaskId task) const { return movement_of_[task.value()]; }

  SharedLinks links;

  struct Arc {
    TaskId first;
    TaskId then;
  };
  std::span<const Arc> arcs() const { return arcs_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<double> seconds_;
  std::vector<std::uint32_t> movement_of_;
  std::vector<Movement> movements_;
  std::vector<Arc> arcs_;
};

/// What one device, thread or link does: tasks of which each waits for the one before it. Borrows
/// the graph.
class TaskChain {
 public:
  explicit TaskChain(TaskGraph& graph) : graph_(&graph) {}
  TaskId append(double seconds = 0);
  /// Nothing while it is empty.
  std::optional<TaskId> last() const { return last_; }

 private:
  TaskGraph* graph_;
  std::optional<TaskId> last_;
};

/// For each task, those that wait for it, in the order in which they were said to.
class Successors {
 public:
  explicit Successors(const TaskGraph& graph);
  std::span<const TaskId> of(TaskId task) const {
    return std::span(tasks_).subspan(begin_[task.value()],
                                     begin_[task.value() + std::size_t{1}] - begin_[task.value()]);
  }
  /// For how many others each task waits.
  const std::vector<std::uint32_t>& num_waits() const { return num_waits_; }

 private:
  std::vector<std::size_t> begin_;
  std::vector<TaskId> tasks_;
  std::vector<std::uint32_t> num_waits_;
};

/// Tasks in an order in which they can be done, each as soon as what it waits for is; without those
/// that wait for ever.
std::vector<TaskId> order_of(const TaskGraph& graph);

/// Tasks of which each waits for the next, and the last for the first; empty if all can finish. Of
/// several cycles, one that can be reached from the first task that can't finish; of several that a
/// task waits for, the one that was said last.
std::vector<TaskId> find_cycle(const TaskGraph& graph);

}  // namespace weft
