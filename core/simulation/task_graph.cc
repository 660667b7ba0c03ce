#include "core/simulation/task_graph.h"

#include <algorithm>
#include <utility>

namespace weft {

TaskId TaskGraph::add(double seconds) {
  const TaskId task(seconds_.size());
  seconds_.push_back(seconds);
  movement_of_.push_back(kNone);
  return task;
}

TaskId TaskGraph::add(Movement movement) {
  const TaskId task = add(0.0);
  movement_of_.back() = movements_.size();
  movements_.push_back(std::move(movement));
  return task;
}

TaskId TaskChain::append(double seconds) {
  const TaskId task = graph_->add(seconds);
  if (last_) graph_->add_dependency(task, *last_);
  last_ = task;
  return task;
}

Successors::Successors(const TaskGraph& graph)
    : begin_(graph.size() + 1, 0), tasks_(graph.arcs().size()), num_waits_(graph.size(), 0) {
  for (const TaskGraph::Arc& arc : graph.arcs()) {
    ++begin_[arc.first.value() + std::size_t{1}];
    ++num_waits_[arc.then.value()];
  }
  for (std::size_t task = 0; task < graph.size(); ++task) begin_[task + 1] += begin_[task];
  std::vector<std::size_t> at(begin_.begin(), begin_.end() - 1);
  for (const TaskGraph::Arc& arc : graph.arcs()) tasks_[at[arc.first.value()]++] = arc.then;
}

std::vector<TaskId> topological_order(const TaskGraph& graph) {
  const Successors successors(graph);
  std::vector<std::uint32_t> waits = successors.num_dependencies();
  std::vector<TaskId> order;
  order.reserve(graph.size());
  for (std::uint32_t task = 0; task < graph.size(); ++task) {
    if (waits[task] == 0) order.emplace_back(task);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const TaskId next : successors.of(order[i])) {
      if (--waits[next.value()] == 0) order.push_back(next);
    }
  }
  return order;
}

std::vector<TaskId> find_cycle(const TaskGraph& graph) {
  std::vector<bool> has_ended(graph.size(), false);
  for (const TaskId task : topological_order(graph)) has_ended[task.value()] = true;
  const auto blocked = std::ranges::find(has_ended, false);
  if (blocked == has_ended.end()) return {};
  // A task that never ends depends on at least one such task.
  std::vector<TaskId> waits_for(graph.size());
  for (const TaskGraph::Arc& arc : graph.arcs()) {
    if (!has_ended[arc.first.value()]) waits_for[arc.then.value()] = arc.first;
  }
  std::vector<bool> seen(graph.size(), false);
  TaskId task(blocked - has_ended.begin());
  for (; !seen[task.value()]; task = waits_for[task.value()]) seen[task.value()] = true;
  std::vector<TaskId> cycle{task};
  for (TaskId next = waits_for[task.value()]; next != task; next = waits_for[next.value()])
    cycle.push_back(next);
  return cycle;
}

}  // namespace weft
