#include "core/simulation/simulate_tasks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "core/simulation/internal/fair_links.h"

namespace weft {
namespace {

class TaskSimulator {
 public:
  explicit TaskSimulator(const TaskGraph& graph)
      : graph_(graph),
        successors_(graph),
        waits_(successors_.num_dependencies()),
        links_(graph.links) {
    times_.start.resize(graph.size(), 0);
    times_.end.resize(graph.size(), 0);
    times_.critical_predecessor.resize(graph.size());
    times_.has_ended.resize(graph.size(), false);
  }

  TaskTimes run() {
    if (graph_.num_movements() > 0) play_in_time();
    else play_in_order();
    return std::move(times_);
  }

 private:
  /// Progress of a movement.
  struct State {
    std::uint64_t order = 0;
    std::size_t not_ready = 0;         ///< Number of receivers that are not ready.
    double left = 0;                   ///< Amount that has not started to move.
    double early = 0;                  ///< Amount that the receivers' buffers hold.
    std::vector<bool> receiver_ready;  ///< Indexed by receiver.
    bool may_begin = false;            ///< True if only receivers may still block it.
    bool moves = false;
    bool has_moved = false;
  };
  /// State of a link with SharedLinks::Sharing::kFifo: when it becomes free, and the last
  /// movement.
  struct LinkOccupancy {
    double free_at = 0;
    std::optional<TaskId> last;
  };

  double& start(TaskId task) { return times_.start[task.value()]; }
  double& end(TaskId task) { return times_.end[task.value()]; }

  /// Marks the task as ended. Calls `ready` for each task that has no other unfinished dependency.
  template <typename Ready>
  void release(TaskId task, const Ready& ready) {
    times_.has_ended[task.value()] = true;
    for (const TaskId next : successors_.of(task)) {
      std::optional<TaskId>& critical_predecessor = times_.critical_predecessor[next.value()];
      if (end(task) > start(next) || !critical_predecessor) {
        start(next) = std::max(start(next), end(task));
        critical_predecessor = task;
      }
      if (--waits_[next.value()] == 0) ready(next);
    }
  }

  /// Simulates without movements: any topological order gives the same times.
  void play_in_order() {
    std::vector<TaskId> ready;
    ready.reserve(graph_.size());
    for (std::uint32_t task = 0; task < graph_.size(); ++task) {
      if (waits_[task] == 0) ready.emplace_back(task);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const TaskId task = ready[i];
      end(task) = start(task) + graph_.seconds(task);
      release(task, [&](TaskId next) { ready.push_back(next); });
    }
  }

  void play_in_time() {
    prepare();
    for (std::uint32_t task = 0; task < graph_.size(); ++task) {
      if (waits_[task] == 0) queue_.push({0, task});
    }
    while (true) {
      const std::optional<double> next_end = links_.next_end();
      if (next_end && (queue_.empty() || *next_end <= queue_.top().first)) {
        now_ = *next_end;
        links_.advance(now_);
        moved(links_.take_ended());
      } else if (!queue_.empty()) {
        const TaskId task(queue_.top().second);
        now_ = queue_.top().first;
        queue_.pop();
        begin(task);
      } else {
        break;
      }
    }
  }

  /// Validates the movements and collects the tasks that make receivers ready.
  void prepare() {
    const SharedLinks& links = graph_.links;
    states_.resize(graph_.num_movements());
    occupancy_.resize(links.rates.size());
    room_ = links.buffers;
    for (std::uint32_t task = 0; task < graph_.size(); ++task) {
      const Movement* movement = graph_.movement(TaskId(task));
      if (movement == nullptr) continue;
      for (const Movement::LinkUse& use : movement->link_uses)
        check(use.link, links.rates.size(), "link");
      if (movement->queue) check(movement->queue->index, links.queues, "queue");
      if (links.sharing == SharedLinks::Sharing::kFifo &&
          (movement->queue || movement->early_chunk > 0)) {
        throw_error(
            ErrorCode::kInvalidArgument,
            "task {}: links that carry one movement at a time support neither queues nor early "
            "starts",
            TaskId(task));
      }
      State& state = state_of(TaskId(task));
      state.left = movement->amount;
      state.not_ready = movement->receivers.size();
      state.receiver_ready.resize(state.not_ready, false);
      if (state.not_ready > 0) receivers_of_.resize(graph_.size());
      for (std::size_t i = 0; i < movement->receivers.size(); ++i) {
        const Movement::Receiver& receiver = movement->receivers[i];
        if (movement->early_chunk > 0) check(receiver.buffer, links.buffers.size(), "buffer");
        if (graph_.movement(receiver.ready) != nullptr || graph_.seconds(receiver.ready) > 0) {
          throw_error(ErrorCode::kInvalidArgument,
                      "task {} makes a receiver ready and must take no time", receiver.ready);
        }
        receivers_of_[receiver.ready.value()].push_back({TaskId(task), i});
      }
    }
  }

  static void check(std::size_t index, std::size_t size, const char* what) {
    if (index >= size)
      throw_error(ErrorCode::kInvalidArgument,
                  "a movement uses {0} {1}, but there are only {2} {0}s", what, index, size);
  }

  State& state_of(TaskId task) { return states_[graph_.movement_number(task)]; }

  void begin(TaskId task) {
    const Movement* movement = graph_.movement(task);
    if (movement == nullptr) return over(task, start(task) + graph_.seconds(task));
    State& state = state_of(task);
    state.may_begin = true;
    state.order = ++begun_;
    if (state.not_ready == 0) return move(task, state.left);
    if (movement->early_chunk <= 0 || movement->link_uses.empty()) return;
    state.early = take_room(*movement, state);
    if (state.early > 0) move(task, state.early);
  }

  void move(TaskId task, double amount) {
    const Movement& movement = *graph_.movement(task);
    if (movement.link_uses.empty()) {
      start(task) = now_;
      return over(task, now_ + movement.latency);
    }
    if (graph_.links.sharing == SharedLinks::Sharing::kFifo)
      return move_exclusively(task, movement);
    State& state = state_of(task);
    state.moves = true;
    state.left -= amount;
    links_.advance(now_);
    links_.add(task, movement, state.order, amount);
  }

  /// Runs a movement that has its links exclusively.
  void move_exclusively(TaskId task, const Movement& movement) {
    start(task) = now_;
    double seconds = 0;
    for (const Movement::LinkUse& use : movement.link_uses) {
      seconds = std::max(seconds, movement.amount * use.load_factor / graph_.links.rates[use.link]);
      const LinkOccupancy& occupancy = occupancy_[use.link];
      if (occupancy.free_at <= start(task)) continue;
      start(task) = occupancy.free_at;
      times_.critical_predecessor[task.value()] = occupancy.last;
    }
    for (const Movement::LinkUse& use : movement.link_uses)
      occupancy_[use.link] = {start(task) + seconds, task};
    over(task, start(task) + seconds + movement.latency);
  }

  /// Reserves buffer space for the part that moves before its receivers are ready. Returns its
  /// amount.
  double take_room(const Movement& movement, const State& state) {
    double room = movement.amount;
    for (std::size_t i = 0; i < movement.receivers.size(); ++i) {
      if (!state.receiver_ready[i]) room = std::min(room, room_[movement.receivers[i].buffer]);
    }
    if (room < movement.amount)
      room = std::max(0.0, std::floor(room / movement.early_chunk) * movement.early_chunk);
    for (std::size_t i = 0; i < movement.receivers.size(); ++i) {
      if (!state.receiver_ready[i]) room_[movement.receivers[i].buffer] -= room;
    }
    return room;
  }

  void receiver_is_ready(TaskId task, std::size_t receiver, TaskId by) {
    const Movement& movement = *graph_.movement(task);
    State& state = state_of(task);
    state.receiver_ready[receiver] = true;
    if (movement.early_chunk > 0) room_[movement.receivers[receiver].buffer] += state.early;
    if (--state.not_ready > 0 || !state.may_begin || state.moves || times_.has_ended[task.value()])
      return;
    if (!state.has_moved && now_ > start(task)) {
      start(task) = now_;
      times_.critical_predecessor[task.value()] = by;
    }
    move(task, state.left);
  }

  /// Handles the arrival of the amount that was on the links.
  void moved(const internal::FairLinks::Ended& ended) {
    State& state = state_of(ended.task);
    state.moves = false;
    if (!state.has_moved) {
      state.has_moved = true;
      if (ended.moved_at > start(ended.task))
        times_.critical_predecessor[ended.task.value()] = ended.predecessor;
      start(ended.task) = ended.moved_at;
    }
    if (state.left > 0) {
      if (state.not_ready == 0) move(ended.task, state.left);
    } else {
      over(ended.task, now_ + graph_.movement(ended.task)->latency);
    }
  }

  void over(TaskId task, double time) {
    end(task) = time;
    if (!receivers_of_.empty()) {
      for (const auto& [movement, receiver] : receivers_of_[task.value()])
        receiver_is_ready(movement, receiver, task);
    }
    release(task, [&](TaskId next) { queue_.push({start(next), next.value()}); });
  }

  const TaskGraph& graph_;
  const Successors successors_;
  std::vector<std::uint32_t> waits_;
  TaskTimes times_;
  using Event = std::pair<double, std::uint32_t>;
  /// Start times of tasks whose dependencies have ended.
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  double now_ = 0;
  std::uint64_t begun_ = 0;
  std::vector<State> states_;  ///< Indexed by movement.
  /// Indexed by task: the movements and receivers that it makes ready. Empty without receivers.
  std::vector<std::vector<std::pair<TaskId, std::size_t>>> receivers_of_;
  std::vector<LinkOccupancy> occupancy_;  ///< Indexed by link.
  std::vector<double> room_;              ///< Free space, indexed by buffer.
  internal::FairLinks links_;
};

}  // namespace

bool TaskTimes::all_ended() const {
  return std::ranges::all_of(has_ended, [](bool over) { return over; });
}

TaskTimes simulate_tasks(const TaskGraph& graph) { return TaskSimulator(graph).run(); }

}  // namespace weft
