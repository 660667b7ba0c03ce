#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/strong_id.h"

namespace weft {

using TaskId = StrongId<struct TaskTag>;

/// Resources shared by movements.
struct SharedLinks {
  enum class Sharing : std::uint8_t {
    kFair,  ///< Movements under way share every link by max-min fairness.
    kFifo,  ///< A link carries one movement at a time, first come first served.
  };
  Sharing sharing = Sharing::kFair;
  std::vector<double> rates;  ///< Rate of each link per second, in any unit.
  std::size_t queues = 0;
  /// Size of each buffer for data that arrives before its receiver is ready.
  std::vector<double> buffers;
};

/// Task that moves an amount over links. Its duration depends on the other movements.
struct Movement {
  struct LinkUse {
    std::uint32_t link = 0;
    double load_factor = 1;  ///< Amount on the link per unit of the movement's `amount`.
  };
  /// Send queue. A movement holds slots while it moves. Slots are granted in the order in which
  /// movements became ready, receivers aside.
  struct Queue {
    std::uint32_t index = 0;
    /// Slots that the movement needs. With fewer free slots it runs, slower in proportion.
    double slots = 1;
    double max_slots = 1;  ///< Slots available to this movement and those ahead of it together.
  };
  /// Receiver that must be ready, besides the movement's dependencies. Until then `buffer` holds
  /// the data that arrives.
  struct Receiver {
    TaskId ready;  ///< Task after which the receiver is ready. It must take no time.
    std::uint32_t buffer = 0;
  };

  double amount = 0;
  std::vector<LinkUse> link_uses;
  double weight = 1;  ///< Weight of its max-min share on links that it shares.
  std::optional<Queue> queue;
  double latency = 0;  ///< Seconds from when the last part has left until the movement ends.
  std::vector<Receiver> receivers;
  /// Chunk size of an early start. While receivers are not ready, the movement moves whole chunks,
  /// or all of it, as far as the buffers have space. 0: no early start.
  double early_chunk = 0;
};

/// Graph of dependent tasks: one step of a schedule, a set of programs, or anything else that takes
/// time. A task takes a fixed number of seconds or moves an amount over links.
class TaskGraph {
 public:
  TaskId add(double seconds = 0);
  TaskId add(Movement movement);
  /// Adds a dependency: `task` starts when `first` has ended, at the earliest.
  void add_dependency(TaskId task, TaskId first) { arcs_.push_back({first, task}); }

  std::size_t size() const { return seconds_.size(); }
  double seconds(TaskId task) const { return seconds_[task.value()]; }
  /// Returns the task's movement, or null if the task takes a fixed time.
  const Movement* movement(TaskId task) const {
    const std::uint32_t index = movement_of_[task.value()];
    return index == kNone ? nullptr : &movements_[index];
  }
  /// Returns the number of movements. They are numbered in the order in which they were added.
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

/// Sequence of tasks of one device, thread or link: each depends on the previous one. Borrows the
/// graph.
class TaskChain {
 public:
  explicit TaskChain(TaskGraph& graph) : graph_(&graph) {}
  TaskId append(double seconds = 0);
  /// Returns the last task, or nullopt if the chain is empty.
  std::optional<TaskId> last() const { return last_; }

 private:
  TaskGraph* graph_;
  std::optional<TaskId> last_;
};

/// Successors of each task, in the order in which the dependencies were added.
class Successors {
 public:
  explicit Successors(const TaskGraph& graph);
  std::span<const TaskId> of(TaskId task) const {
    return std::span(tasks_).subspan(begin_[task.value()],
                                     begin_[task.value() + std::size_t{1}] - begin_[task.value()]);
  }
  /// Returns the number of dependencies of each task.
  const std::vector<std::uint32_t>& num_dependencies() const { return num_waits_; }

 private:
  std::vector<std::size_t> begin_;
  std::vector<TaskId> tasks_;
  std::vector<std::uint32_t> num_waits_;
};

/// Returns the tasks in a topological order. Omits the tasks that can never start because of a
/// cycle.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Returns a dependency cycle: each task depends on the next, and the last on the first. Empty if
/// all tasks can end. Among several cycles it returns one reachable from the first task that cannot
/// end; among several unfinished dependencies of a task it follows the one added last.
std::vector<TaskId> find_cycle(const TaskGraph& graph);

}  // namespace weft
