#include "mesh/schedule/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"
#include "mesh/schedule/action_graph.h"

namespace weft::mesh {
namespace {

/// Tag that both halves of a transfer share: edge, direction, microbatch.
using Tag = std::tuple<int, bool, int>;
Tag tag_of(const Operation& half) { return {half.edge, half.backward, half.microbatch}; }

/// Returns all actions by tick, then actor. Every action takes one tick and starts as early as
/// possible.
std::vector<int> by_tick(const ActionGraph& graph) {
  const TaskTimes times = simulate_tasks(graph.tasks(1));
  std::vector<int> result = graph.order();
  std::ranges::sort(result, {}, [&](int node) { return std::tuple(times.start[node], node); });
  return result;
}

struct ActionTransfer {
  int producer = 0;
  int consumer = 0;
  int edge = 0;
};

/// Returns the transfers to an action from other actors, in the order of its needs.
std::vector<ActionTransfer> transfers_to(const ActionGraph& graph, int node) {
  std::vector<ActionTransfer> transfers;
  for (const ActionGraph::ActionDependency& need : graph.needs(node)) {
    if (need.edge >= 0 && graph.actor(need.node) != graph.actor(node))
      transfers.push_back({need.node, node, need.edge});
  }
  return transfers;
}

/// Builder of the operation lists of all actors.
class OperationLists {
 public:
  explicit OperationLists(const ActionGraph& graph) : graph_(graph), lists_(graph.num_actors()) {}

  void run(int node) { list_of(node).push_back({Operation::What::kRun, graph_.action(node)}); }
  void send(const ActionTransfer& one) {
    add_half(Operation::What::kSend, one, one.producer, one.consumer);
  }
  void receive(const ActionTransfer& one) {
    add_half(Operation::What::kReceive, one, one.consumer, one.producer);
  }
  LoweredSchedule take() { return std::move(lists_); }

 private:
  std::vector<Operation>& list_of(int node) { return lists_[graph_.actor(node)]; }

  void add_half(Operation::What what, const ActionTransfer& one, int own, int other) {
    const bool backward = graph_.action(one.consumer).kind != ActionKind::kForward;
    list_of(own).push_back({what, graph_.action(own), one.edge, backward,
                            graph_.action(own).microbatch, graph_.actor(other)});
  }

  const ActionGraph& graph_;
  LoweredSchedule lists_;
};

}  // namespace

std::string to_string(const Operation& operation) {
  if (operation.what == Operation::What::kRun) return to_string(operation.action);
  return fmt::format("{}{}_{}{}", operation.action.stage,
                     operation.what == Operation::What::kSend ? "SEND" : "RECV",
                     operation.backward ? "B" : "F", operation.microbatch);
}

LoweredSchedule lower(const Schedule& schedule, std::span<const StageEdge> edges,
                      TransferOrder order) {
  const ActionGraph graph(schedule, edges);
  if (const std::vector<int> cycle = graph.find_cycle(); !cycle.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' cannot finish: {}", schedule.name,
                describe_cycle(graph, cycle));
  }
  std::vector<std::vector<ActionTransfer>> made_by(graph.size());
  for (int node = 0; node < graph.size(); ++node) {
    for (const ActionTransfer& one : transfers_to(graph, node))
      made_by[one.producer].push_back(one);
  }
  OperationLists lists(graph);
  if (order == TransferOrder::kTotalOrder) {
    for (const int node : by_tick(graph)) {
      lists.run(node);
      for (const ActionTransfer& one : made_by[node]) {
        lists.send(one);
        lists.receive(one);
      }
    }
    return lists.take();
  }
  for (int begin = 0; begin < graph.size(); begin = graph.compound_end(begin) + 1) {
    const int end = graph.compound_end(begin) + 1;
    for (int node = begin; node < end; ++node)
      for (const ActionTransfer& one : transfers_to(graph, node)) lists.receive(one);
    for (int node = begin; node < end; ++node) lists.run(node);
    for (int node = begin; node < end; ++node)
      for (const ActionTransfer& one : made_by[node]) lists.send(one);
  }
  return lists.take();
}

Schedule merge_weight_gradients(Schedule schedule) {
  for (std::vector<Action>& actions : schedule.actors) {
    std::vector<Action> merged;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kWeightGrad && !merged.empty() &&
          merged.back().kind == ActionKind::kInputGrad && merged.back().stage == action.stage &&
          merged.back().microbatch == action.microbatch) {
        merged.back().kind = ActionKind::kBackward;
      } else {
        merged.push_back(action);
      }
    }
    actions = std::move(merged);
  }
  return schedule;
}

std::string find_unmatched_half(const LoweredSchedule& lowered) {
  struct Ends {
    int sender = -1;
    int receiver = -1;
  };
  std::map<Tag, Ends> ends;
  for (std::size_t actor = 0; actor < lowered.size(); ++actor) {
    for (const Operation& operation : lowered[actor]) {
      if (operation.what == Operation::What::kRun) continue;
      Ends& both = ends[tag_of(operation)];
      int& own = operation.what == Operation::What::kSend ? both.sender : both.receiver;
      if (own >= 0)
        return fmt::format("actor {}: {} of edge {} occurs twice", actor, to_string(operation),
                           operation.edge);
      own = actor;
    }
  }
  for (std::size_t actor = 0; actor < lowered.size(); ++actor) {
    for (const Operation& operation : lowered[actor]) {
      if (operation.what == Operation::What::kRun) continue;
      const bool send = operation.what == Operation::What::kSend;
      const Ends& both = ends[tag_of(operation)];
      const int other = send ? both.receiver : both.sender;
      if (other == operation.peer) continue;
      return fmt::format("actor {}: {} of edge {} has no {} on actor {}", actor,
                         to_string(operation), operation.edge, send ? "receive" : "send",
                         operation.peer);
    }
  }
  return "";
}

}  // namespace weft::mesh
