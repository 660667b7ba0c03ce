#include "mesh/schedule/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/simulation/play.h"
#include "mesh/schedule/action_graph.h"

namespace weft::mesh {
namespace {

/// What both halves of a transfer have in common.
using Tag = std::tuple<int, bool, int>;
Tag tag_of(const Operation& half) { return {half.edge, half.backward, half.microbatch}; }

/// The actions of each tick, when every action takes one tick and starts as early as it can; in a
/// tick by actor.
std::vector<int> by_tick(const ActionGraph& graph) {
  const TaskTimes times = play(graph.tasks(1));
  std::vector<int> result = graph.order();
  std::ranges::sort(result, {}, [&](int node) { return std::tuple(times.start[node], node); });
  return result;
}

struct Transfer {
  int producer = 0;
  int consumer = 0;
  int edge = 0;
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
  std::vector<std::vector<Transfer>> made_by(static_cast<std::size_t>(graph.size()));
  for (int node = 0; node < graph.size(); ++node) {
    for (const ActionGraph::Need& need : graph.needs(node)) {
      if (need.edge < 0 || graph.actor(need.node) == graph.actor(node)) continue;
      made_by[need.node].push_back({need.node, node, need.edge});
    }
  }
  LoweredSchedule lowered(schedule.actors.size());
  const auto list = [&](int node) -> std::vector<Operation>& { return lowered[graph.actor(node)]; };
  const auto half = [&](Operation::What what, const Transfer& one) {
    const bool send = what == Operation::What::kSend;
    const int own = send ? one.producer : one.consumer, other = send ? one.consumer : one.producer;
    list(own).push_back({what, graph.action(own), one.edge,
                         graph.action(one.consumer).kind != ActionKind::kForward,
                         graph.action(own).microbatch, graph.actor(other)});
  };
  if (order == TransferOrder::kTotalOrder) {
    for (const int node : by_tick(graph)) {
      list(node).push_back({Operation::What::kRun, graph.action(node)});
      for (const Transfer& one : made_by[node]) {
        half(Operation::What::kSend, one);
        half(Operation::What::kReceive, one);
      }
    }
    return lowered;
  }
  for (int node = 0; node < graph.size(); ++node) {
    for (const ActionGraph::Need& need : graph.needs(node)) {
      if (need.edge >= 0 && graph.actor(need.node) != graph.actor(node))
        half(Operation::What::kReceive, {need.node, node, need.edge});
    }
    list(node).push_back({Operation::What::kRun, graph.action(node)});
    for (const Transfer& one : made_by[node]) half(Operation::What::kSend, one);
  }
  return lowered;
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

std::string find_unmatched(const LoweredSchedule& lowered) {
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
        return fmt::format("actor {}: {} of edge {} stands there twice", actor,
                           to_string(operation), operation.edge);
      own = static_cast<int>(actor);
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
