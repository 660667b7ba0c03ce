#include "transfer/nccl/operation_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"

namespace weft::transfer {
namespace {

/// Task graph of the timelines. An operation is a task that waits for all of its devices to start
/// it.
class OperationTasks {
 public:
  /// Scales work by `time_of_work`. Each wait takes `time_of_wait` seconds.
  OperationTasks(std::span<const DeviceTimeline> timelines, double time_of_work,
                 double time_of_wait)
      : timelines_(timelines) {
    for (const DeviceTimeline& timeline : timelines) {
      for (const TimelineStep& step : timeline.steps) {
        const auto* start = std::get_if<TimelineStart>(&step);
        if (start != nullptr && !operations_.contains(start->key))
          operations_.emplace(start->key, tasks_.add());
      }
    }
    for (const DeviceTimeline& timeline : timelines) {
      TaskChain chain(tasks_);
      std::vector<TaskId>& steps = steps_.emplace_back();
      for (const TimelineStep& step : timeline.steps) {
        const auto* work = std::get_if<TimelineWork>(&step);
        const auto* wait = std::get_if<TimelineWait>(&step);
        const TaskId task = chain.append(work != nullptr   ? time_of_work * work->seconds
                                         : wait != nullptr ? time_of_wait
                                                           : 0);
        steps.push_back(task);
        if (const auto* start = std::get_if<TimelineStart>(&step)) {
          tasks_.add_dependency(operations_.at(start->key), task);
          starts_[start->key].push_back(task);
        }
        // A wait for an operation that no device starts never ends.
        if (wait != nullptr)
          tasks_.add_dependency(task,
                                operations_.contains(wait->key) ? operations_.at(wait->key) : task);
      }
    }
  }

  /// Returns, per operation, the time when the last of its devices starts it.
  std::map<OperationKey, double> times() const {
    const TaskTimes times = simulate_tasks(tasks_);
    check_finished(times);
    std::map<OperationKey, double> result;
    for (const auto& [key, task] : operations_) result.emplace(key, times.start[task.value()]);
    return result;
  }

 private:
  void check_finished(const TaskTimes& times) const {
    std::string stuck;
    const auto has_ended = [&](TaskId task) { return times.has_ended[task.value()]; };
    for (std::size_t i = 0; i < timelines_.size(); ++i) {
      const auto first = std::ranges::find_if_not(steps_[i], has_ended);
      if (first == steps_[i].end()) continue;
      const auto& wait = std::get<TimelineWait>(timelines_[i].steps[first - steps_[i].begin()]);
      const auto starts = starts_.find(wait.key);
      stuck += fmt::format(
          "\n  device {} waits for {}, which {} of its {} devices have started",
          timelines_[i].device, to_string(wait.key),
          starts == starts_.end() ? 0 : std::ranges::count_if(starts->second, has_ended),
          starts == starts_.end() ? 0 : starts->second.size());
    }
    if (!stuck.empty())
      throw_error(ErrorCode::kInternal, "the programs of a step cannot finish:{}", stuck);
  }

  std::span<const DeviceTimeline> timelines_;
  TaskGraph tasks_;
  std::map<OperationKey, TaskId> operations_;
  std::map<OperationKey, std::vector<TaskId>> starts_;
  std::vector<std::vector<TaskId>> steps_;  ///< Tasks by timeline.
};

}  // namespace

std::string to_string(const OperationKey& key) {
  return key.microbatch < 0 ? fmt::format("op {}", key.op)
                            : fmt::format("op {} microbatch {}", key.op, key.microbatch);
}

std::vector<OperationKey> total_order(std::span<const DeviceTimeline> timelines) {
  const std::map<OperationKey, double> seconds = OperationTasks(timelines, 1, 0).times();
  // Breaks ties by the number of preceding waits, because an operation after a wait is later even
  // if no time passes.
  const std::map<OperationKey, double> waits = OperationTasks(timelines, 0, 1).times();
  std::vector<std::tuple<double, double, OperationKey>> sorted;
  for (const auto& [key, time] : seconds) sorted.emplace_back(time, waits.at(key), key);
  std::ranges::sort(sorted);
  std::vector<OperationKey> order;
  for (const auto& [time, turn, key] : sorted) order.push_back(key);
  return order;
}

std::vector<OperationKey> order_of_device(std::span<const OperationKey> order,
                                          const DeviceTimeline& timeline,
                                          const std::set<std::uint32_t>& ops) {
  std::set<OperationKey> started;
  for (const TimelineStep& step : timeline.steps) {
    if (const auto* start = std::get_if<TimelineStart>(&step);
        start != nullptr && ops.contains(start->key.op))
      started.insert(start->key);
  }
  std::vector<OperationKey> result;
  std::copy_if(order.begin(), order.end(), std::back_inserter(result),
               [&](const OperationKey& key) { return started.contains(key); });
  return result;
}

}  // namespace weft::transfer
