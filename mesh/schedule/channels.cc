#include "mesh/schedule/channels.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/simulation/task_graph.h"

namespace weft::mesh {
namespace {

using Lane = std::tuple<int, int, int, int>;

Lane lane_of(const Operation& half, ChannelModel model) {
  const int out = half.what == Operation::What::kSend ? 1 : 0, kind = half.backward ? 1 : 0;
  switch (model) {
    case ChannelModel::kBlocking:
    case ChannelModel::kOneStream: return {0, 0, 0, 0};
    case ChannelModel::kPerKind: return {kind, 0, 0, 0};
    case ChannelModel::kPerPeer: return {half.peer, out, 0, 0};
    case ChannelModel::kPerPeerDirectionAndKind: return {half.peer, out, kind, 0};
    case ChannelModel::kPerEdge: return {half.edge, kind, out, 1};
  }
  return {0, 0, 0, 0};
}

/// Operations as a task graph. The two halves of a rendezvous are one task. Static lists have no
/// choices, so the lists finish if and only if the tasks do.
class OperationWaits {
 public:
  OperationWaits(const LoweredSchedule& lowered, ChannelModel model, int buffers)
      : lowered_(lowered) {
    add_tasks(buffers == 0);
    for (std::size_t actor = 0; actor < lowered.size(); ++actor) chain(actor, model);
    if (buffers > 0) add_buffer_waits(buffers);
  }

  std::string cycle() const {
    const std::vector<TaskId> cycle = find_cycle(tasks_);
    std::string text;
    for (const TaskId task : cycle) text += name(task) + " <- ";
    return cycle.empty() ? "" : text + name(cycle.front());
  }

 private:
  using Tag = std::tuple<int, bool, int>;
  /// Actor and index of an operation.
  using Place = std::pair<std::size_t, std::size_t>;

  /// Returns a task's name, such as "1RECV_F0 on 1 = 0SEND_F0 on 0" for a rendezvous.
  std::string name(TaskId task) const {
    std::string text;
    for (const auto& [actor, at] : places_[task.value()]) {
      text += fmt::format("{}{} on {}", text.empty() ? "" : " = ", to_string(lowered_[actor][at]),
                          actor);
    }
    return text;
  }

  void add_tasks(bool rendezvous) {
    std::map<Tag, TaskId> shared;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      std::vector<TaskId>& own = operations_.emplace_back();
      for (const Operation& one : lowered_[actor]) {
        const Tag tag{one.edge, one.backward, one.microbatch};
        const bool is_half = one.what != Operation::What::kRun && rendezvous;
        if (is_half && shared.contains(tag)) {
          own.push_back(shared.at(tag));
        } else {
          own.push_back(tasks_.add());
          places_.emplace_back();
          if (is_half) shared.emplace(tag, own.back());
        }
        places_[own.back().value()].push_back({actor, own.size() - 1});
      }
    }
  }

  void wait(TaskId then, std::optional<TaskId> first) {
    if (first && *first != then) tasks_.add_dependency(then, *first);
  }

  void chain(std::size_t actor, ChannelModel model) {
    std::map<Lane, TaskId> last_of_lane;
    std::optional<TaskId> last_run, last;
    std::vector<RunKey> members;  // Actions of the current compound.
    for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
      const Operation& one = lowered_[actor][i];
      const TaskId task = operations_[actor][i];
      if (model == ChannelModel::kBlocking) {
        wait(task, last);
        last = task;
        continue;
      }
      if (one.what == Operation::What::kRun) {
        wait(task, last_run);
        last_run = task;
        const RunKey key = key_of(actor, one.action);
        if (!one.action.joins_previous) members.clear();
        members.push_back(key);
        compounds_[key].begin = members.size() > 1 ? compounds_.at(members.front()).begin : task;
        for (const RunKey& member : members) compounds_[member].end = task;
        continue;
      }
      const auto [lane, fresh] = last_of_lane.try_emplace(lane_of(one, model), task);
      if (!fresh) wait(task, lane->second);
      lane->second = task;
    }
    if (model == ChannelModel::kBlocking) return;
    for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
      const Operation& one = lowered_[actor][i];
      if (one.what == Operation::What::kRun) continue;
      const Compound& runs = compounds_.at(key_of(actor, one.action));
      if (one.what == Operation::What::kSend) wait(operations_[actor][i], runs.end);
      else wait(runs.begin, operations_[actor][i]);
    }
  }

  /// Actor, stage, microbatch and kind of an action.
  using RunKey = std::tuple<std::size_t, int, int, ActionKind>;
  static RunKey key_of(std::size_t actor, const Action& action) {
    return {actor, action.stage, action.microbatch, action.kind};
  }

  /// Makes each receive wait for its send, and each send for the receive that frees its buffer.
  void add_buffer_waits(std::size_t buffers) {
    std::map<std::pair<int, bool>, std::vector<TaskId>> receives;
    std::map<Tag, TaskId> sends;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
        const Operation& one = lowered_[actor][i];
        if (one.what == Operation::What::kSend)
          sends[{one.edge, one.backward, one.microbatch}] = operations_[actor][i];
        if (one.what == Operation::What::kReceive)
          receives[{one.edge, one.backward}].push_back(operations_[actor][i]);
      }
    }
    std::map<std::pair<int, bool>, std::size_t> sent;
    for (std::size_t actor = 0; actor < lowered_.size(); ++actor) {
      for (std::size_t i = 0; i < lowered_[actor].size(); ++i) {
        const Operation& one = lowered_[actor][i];
        if (one.what == Operation::What::kReceive) {
          if (const auto send = sends.find({one.edge, one.backward, one.microbatch});
              send != sends.end()) {
            wait(operations_[actor][i], send->second);
          }
        } else if (one.what == Operation::What::kSend) {
          const std::size_t n = sent[{one.edge, one.backward}]++;
          const std::vector<TaskId>& freed = receives[{one.edge, one.backward}];
          if (n >= buffers && n - buffers < freed.size())
            wait(operations_[actor][i], freed[n - buffers]);
        }
      }
    }
  }

  const LoweredSchedule& lowered_;
  TaskGraph tasks_;
  std::vector<std::vector<TaskId>> operations_;  ///< Tasks by actor and index.
  std::vector<std::vector<Place>> places_;       ///< Operations of each task.
  /// First and last run of a compound.
  struct Compound {
    TaskId begin, end;
  };
  std::map<RunKey, Compound> compounds_;  ///< Compounds, by member.
};

}  // namespace

std::string_view to_string(ChannelModel model) {
  static constexpr std::string_view kNames[] = {"blocking",
                                                "one stream",
                                                "a lane per kind",
                                                "a lane per peer",
                                                "a lane per peer and kind",
                                                "a lane per edge"};
  return kNames[static_cast<std::size_t>(model)];
}

std::string find_deadlock(const LoweredSchedule& lowered, ChannelModel model, int buffers) {
  return OperationWaits(lowered, model, buffers).cycle();
}

std::optional<int> min_buffers(const LoweredSchedule& lowered, ChannelModel model,
                               int microbatches) {
  const auto finishes = [&](int buffers) { return find_deadlock(lowered, model, buffers).empty(); };
  if (finishes(0)) return 0;
  if (!finishes(microbatches)) return std::nullopt;
  // Binary search: additional buffers only remove waits.
  int low = 0, high = microbatches;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (finishes(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace weft::mesh
