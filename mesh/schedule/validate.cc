#include <fmt/format.h>

#include "core/base/error.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {
namespace {

void check_placement(const Schedule& schedule) {
  if (std::ssize(schedule.actor_of_stage) != schedule.stages) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has {} stages but places {}",
                schedule.name, schedule.stages, schedule.actor_of_stage.size());
  }
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    for (const Action& action : schedule.actors[actor]) {
      // ActionGraph reports stages out of range.
      if (action.stage < 0 || action.stage >= schedule.stages) continue;
      if (schedule.actor_of_stage[action.stage] != static_cast<int>(actor)) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} belongs to actor {}",
                    schedule.name, actor, to_string(action), schedule.actor_of_stage[action.stage]);
      }
    }
  }
}

void check_counts(const Schedule& schedule, const ActionGraph& graph, bool training) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
      const auto has = [&](ActionKind kind) { return graph.has(kind, stage, microbatch); };
      if (!has(ActionKind::kForward)) {
        throw_error(ErrorCode::kInvalidArgument, "schedule '{}' never runs {}", schedule.name,
                    to_string(Action{stage, ActionKind::kForward, microbatch}));
      }
      const bool b = has(ActionKind::kBackward), i = has(ActionKind::kInputGrad),
                 w = has(ActionKind::kWeightGrad);
      const bool backward_ok = training ? (b ? !i && !w : i && w) : !b && !i && !w;
      if (!backward_ok) {
        throw_error(ErrorCode::kInvalidArgument,
                    "schedule '{}', stage {}, microbatch {}: needs {}, but has B {} times, I {} "
                    "times, W {} times",
                    schedule.name, stage, microbatch,
                    training ? "either B, or one I and one W" : "no backward", int{b}, int{i},
                    int{w});
      }
    }
  }
  check_vocabulary_passes(schedule, training);
  for (const ActionGraph::MissingDependency& missing : graph.missing()) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}', actor {}: {} needs {}, which the schedule lacks", schedule.name,
                graph.actor(missing.node), to_string(graph.action(missing.node)),
                to_string(missing.what));
  }
}

/// Throws if a compound has a member that runs once per step, or on all actors.
void check_members(const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    const std::vector<Action>& actions = schedule.actors[actor];
    if (!actions.empty() && actions.front().joins_previous)
      throw_error(ErrorCode::kInvalidArgument,
                  "schedule '{}', actor {}: {} joins an action before it, but is the first one",
                  schedule.name, actor, to_string(actions.front()));
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(actions, begin), size = end - begin;
      for (; begin < end; ++begin) {
        const ActionKind kind = actions[begin].kind;
        if (size == 1 || (has_microbatch(kind) && !is_vocabulary_pass(kind))) continue;
        throw_error(ErrorCode::kInvalidArgument,
                    "schedule '{}', actor {}: {} cannot be part of a compound, only F, B, I, W and "
                    "R can; take it out of the parentheses",
                    schedule.name, actor, to_string(actions[begin]));
      }
    }
  }
}

/// Describes the first wait of a compound for an action that does not run.
std::string first_wait(const ActionGraph& graph, const std::vector<bool>& runs, int compound) {
  for (int node = graph.compound_begin(compound); node <= graph.compound_end(compound); ++node) {
    for (const ActionGraph::ActionDependency& need : graph.needs(node)) {
      if (runs[need.node]) continue;
      return fmt::format("\n  actor {} is at {}, which waits for {} of actor {}", graph.actor(node),
                         to_string(graph.action(node)), to_string(graph.action(need.node)),
                         graph.actor(need.node));
    }
  }
  return "";
}

/// Describes the position of every actor that cannot continue.
std::string stuck_actors(const Schedule& schedule, const ActionGraph& graph) {
  std::vector<bool> runs(graph.size(), false);
  for (const int node : graph.order()) runs[node] = true;
  std::string text;
  for (int actor = 0; actor < graph.num_actors(); ++actor) {
    int node = graph.first(actor);
    while (node < graph.first(actor + 1) && runs[node]) ++node;
    if (node == graph.first(actor + 1)) continue;
    text += first_wait(graph, runs, node);
  }
  return fmt::format("schedule '{}' cannot finish:{}", schedule.name, text);
}

}  // namespace

void check_complete(const Schedule& schedule, std::span<const StageEdge> edges, bool training) {
  check_placement(schedule);
  check_counts(schedule, ActionGraph(schedule, edges), training);
  check_members(schedule);
}

std::string find_sum_order_violation(const Schedule& schedule) {
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    std::vector<int> last_of_stage(schedule.stages, -1);
    int last_grads = -1, last_input = -1;
    for (const Action& action : schedule.actors[actor]) {
      const bool grads = action.kind == ActionKind::kVocabularyGrads,
                 input = action.kind == ActionKind::kInputBackward;
      if (!gives_weight_grad(action.kind) && !grads && !input) continue;
      int& last = grads ? last_grads : input ? last_input : last_of_stage[action.stage];
      if (action.microbatch < last) {
        return fmt::format(
            "actor {}: {} comes after the weight gradient of microbatch {}; weight gradients must "
            "be in microbatch order; otherwise sums depend on the schedule",
            actor, to_string(action), last);
      }
      last = action.microbatch;
    }
  }
  return "";
}

void validate(const Schedule& schedule, std::span<const StageEdge> edges, bool training) {
  check_placement(schedule);
  const ActionGraph graph(schedule, edges);
  check_counts(schedule, graph, training);
  check_members(schedule);
  for (const std::string& unordered :
       {find_sum_order_violation(schedule), find_unordered_pass(schedule)})
    if (!unordered.empty())
      throw_error(ErrorCode::kInvalidArgument, "schedule '{}', {}", schedule.name, unordered);
  const std::vector<int> cycle = graph.find_cycle();
  if (cycle.empty()) return;
  throw_error(ErrorCode::kInvalidArgument, "{}\n  the cycle: {}", stuck_actors(schedule, graph),
              describe_cycle(graph, cycle));
}

}  // namespace weft::mesh
