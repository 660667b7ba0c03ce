#include "mesh/schedule/simulate.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/simulation/simulate_tasks.h"
#include "mesh/schedule/action_graph.h"
#include "mesh/schedule/internal/memory.h"
#include "mesh/schedule/internal/step_graph.h"

namespace weft::mesh {
namespace {

/// Derives the results of a simulation from the times of its tasks.
class Reporter {
 public:
  Reporter(const ScheduleCosts& costs, const SimulationOptions& options, const ActionGraph& actions,
           const StepGraph& graph, const TaskTimes& times)
      : costs_(costs),
        options_(options),
        actions_(actions),
        graph_(graph),
        start_(times.start),
        end_(times.end),
        times_(times) {}

  ScheduleSimulation result() const {
    ScheduleSimulation simulation;
    double busiest = 0;
    for (int actor = 0; actor < actions_.num_actors(); ++actor)
      simulation.actors.push_back(actor_result(actor));
    add_blocking_transfers(simulation);
    for (const SimulatedActor& actor : simulation.actors) {
      simulation.makespan = std::max(simulation.makespan, actor.end);
      busiest = std::max(busiest, actor.work);
      simulation.span_bubble =
          std::max(simulation.span_bubble, actor.end - actor.start - actor.work);
      simulation.exposed_transfer_time += actor.exposed_transfer_time / simulation.actors.size();
    }
    simulation.makespan_bubble = simulation.makespan - busiest;
    for (int action = 0; action < actions_.size(); ++action)
      simulation.mean_action_end += action_end(action) / actions_.size();
    simulation.step_time = step_end(simulation);
    if (options_.details) {
      for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
        const StepGraph::TensorTransfer& one = graph_.transfer_of(node);
        simulation.transfers.push_back(
            {one.edge, one.backward, actions_.action(one.producer).microbatch,
             actions_.actor(one.producer), actions_.actor(one.consumer), start_[node], end_[node]});
      }
      simulation.critical_path = critical_path();
    }
    record_memory(costs_, actions_, memory_times(), options_.details, simulation);
    return simulation;
  }

 private:
  double action_start(int action) const { return start_[graph_.first_piece(action)]; }
  double action_end(int action) const { return end_[graph_.last_piece(action)]; }

  SimulatedActor actor_result(int actor) const {
    SimulatedActor result;
    const int first = actions_.first(actor), past = actions_.first(actor + 1);
    if (first < past) {
      result.start = start_[graph_.first_piece(first)];
      result.end = action_end(past - 1);
    }
    for (int action = first; action < past; ++action) {
      for (std::size_t piece = graph_.first_piece(action); piece <= graph_.last_piece(action);
           ++piece) {
        result.work += graph_.duration(piece);
        if (!options_.blocking)
          result.exposed_transfer_time +=
              exposed(piece, action > first || piece > graph_.first_piece(action));
      }
      if (options_.details)
        result.actions.push_back(
            {actions_.action(action), action_start(action), action_end(action)});
    }
    return result;
  }

  /// Returns the part of the idle time before a piece during which only transfers in flight were
  /// missing.
  double exposed(std::size_t piece, bool follows) const {
    const std::optional<TaskId> by = times_.critical_predecessor[piece];
    if (!by || by->value() < graph_.num_pieces()) return 0;
    const double free_from = follows ? end_[piece - 1] : 0;
    const double made = by->value() < graph_.size() ? end_[graph_.transfer_of(by->value()).made_by]
                                                    : start_[by->value()];
    return std::max(0.0, start_[piece] - std::max(free_from, made));
  }

  /// Adds blocking transfers, which stall both actors for their whole duration.
  void add_blocking_transfers(ScheduleSimulation& simulation) const {
    if (!options_.blocking) return;
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::TensorTransfer& one = graph_.transfer_of(node);
      for (const int end : {one.producer, one.consumer}) {
        simulation.actors[actions_.actor(end)].exposed_transfer_time += graph_.duration(node);
      }
    }
  }

  /// Returns the end of the step: sends and reductions end, then all actors exchange, then they
  /// take their optimizer steps. Reductions and steps that the schedule contains are already
  /// simulated.
  double step_end(const ScheduleSimulation& simulation) const {
    const std::size_t actors = simulation.actors.size();
    std::vector<double> computed, sent(actors, 0), reduce(actors, 0), optimizer(actors, 0);
    for (std::size_t actor = 0; actor < actors; ++actor) {
      const auto [reduced, then] = reductions(actor);
      computed.push_back(std::max(simulation.actors[actor].end, reduced + then));
    }
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage) {
      const std::size_t actor = actor_of_stage(stage);
      const auto lacks = [&](ActionKind kind) { return !actions_.has(kind, stage, kNoMicrobatch); };
      const StageCosts& own = costs_.stages[stage];
      if (lacks(ActionKind::kReduceGrad))
        reduce[actor] += options_.blocking ? own.reduce_grad : late_reduction(own);
      if (lacks(ActionKind::kOptimizer)) optimizer[actor] += own.optimizer;
    }
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::TensorTransfer& one = graph_.transfer_of(node);
      for (const int end : {one.producer, one.consumer}) {
        double& over = (options_.blocking ? computed : sent)[actions_.actor(end)];
        over = std::max(over, end_[node]);
      }
    }
    double all = 0, last = 0;
    for (std::size_t actor = 0; actor < actors; ++actor) {
      all = std::max({all, computed[actor] + reduce[actor], sent[actor]});
      last = std::max(last, optimizer[actor]);
    }
    return all + costs_.exchange + last;
  }

  /// Returns the end of the actor's scheduled reductions, and the duration of its OPTs, which
  /// follow.
  std::pair<double, double> reductions(int actor) const {
    double over = 0, optimizer = 0;
    for (int action = actions_.first(actor);
         action < actions_.first(actor + 1) && !options_.blocking; ++action) {
      const Action& one = actions_.action(action);
      const StageCosts& stage = costs_.stages[one.stage];
      if (one.kind == ActionKind::kReduceGrad)
        over = std::max(over, action_end(action)) + stage.reduce_grad;
      if (one.kind == ActionKind::kOptimizer) optimizer += stage.optimizer;
    }
    return over > 0 ? std::pair(over, optimizer) : std::pair(0.0, 0.0);
  }

  std::size_t actor_of_stage(int stage) const {
    const auto first = actions_.find(ActionKind::kForward, stage, 0);
    return first ? static_cast<std::size_t>(actions_.actor(*first)) : 0;
  }

  std::vector<ScheduleSimulation::PathStep> critical_path() const {
    std::vector<ScheduleSimulation::PathStep> path;
    std::optional<TaskId> node;
    for (int action = 0; action < actions_.size(); ++action) {
      const TaskId last(graph_.last_piece(action));
      if (!node || end_[last.value()] > end_[node->value()]) node = last;
    }
    for (; node; node = times_.critical_predecessor[node->value()]) {
      const std::size_t n = node->value();
      if (n >= graph_.size()) continue;
      ScheduleSimulation::PathStep step;
      if (n < graph_.num_pieces()) {
        const int action = graph_.action_of(n), actor = actions_.actor(action);
        step = {actor, action - actions_.first(actor), false};
      } else {
        step = {actions_.actor(graph_.transfer_of(n).consumer),
                static_cast<int>(n - graph_.num_pieces()), true};
      }
      if (path.empty() || path.back() != step) path.push_back(step);
    }
    std::ranges::reverse(path);
    return path;
  }

  MemoryTimes memory_times() const {
    MemoryTimes times;
    for (int action = 0; action < actions_.size(); ++action) {
      times.action_start.push_back(start_[graph_.begin_piece(action)]);
      times.action_end.push_back(end_[graph_.end_piece(action)]);
    }
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::TensorTransfer& one = graph_.transfer_of(node);
      times.transfers.push_back(
          {one.edge, one.producer, one.consumer, end_[one.made_by], start_[node], end_[node]});
    }
    return times;
  }

  const ScheduleCosts& costs_;
  const SimulationOptions& options_;
  const ActionGraph& actions_;
  const StepGraph& graph_;
  const std::vector<double>&start_, &end_;  ///< Times by node.
  const TaskTimes& times_;
};

/// Returns the costs with `recomputes` cleared for stages whose R is in the schedule.
ScheduleCosts without_scheduled_recompute(const Schedule& schedule, const ScheduleCosts& costs) {
  ScheduleCosts result = costs;
  for (const std::vector<Action>& actions : schedule.actors) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kRecompute) result.stages[action.stage].recomputes = false;
    }
  }
  return result;
}

void check(const Schedule& schedule, const ScheduleCosts& costs, const ActionGraph& graph) {
  require_stage_costs(schedule, costs);
  if (!costs.nic_of_actor.empty() && costs.nic_of_actor.size() != schedule.actors.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' has {} actors, but {} have a network interface", schedule.name,
                schedule.actors.size(), costs.nic_of_actor.size());
  }
  for (const ActionGraph::MissingDependency& missing : graph.missing()) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}', actor {}: {} needs {}, which the schedule lacks", schedule.name,
                graph.actor(missing.node), to_string(graph.action(missing.node)),
                to_string(missing.what));
  }
}

}  // namespace

double ScheduleSimulation::peak() const {
  double most = 0;
  for (const SimulatedActor& actor : actors) most = std::max(most, actor.peak);
  return most;
}

ScheduleSimulation simulate(const Schedule& schedule, const ScheduleCosts& given,
                            const SimulationOptions& options) {
  const std::vector<StageEdge> edges = given.stage_edges();
  const ActionGraph actions(schedule, edges);
  check(schedule, given, actions);
  const auto fail = [&] {
    const std::vector<int> cycle = actions.find_cycle();
    if (!cycle.empty()) {
      throw_error(ErrorCode::kInvalidArgument, "schedule '{}' cannot finish: {}", schedule.name,
                  describe_cycle(actions, cycle));
    }
    throw_error(
        ErrorCode::kInvalidArgument,
        "schedule '{}' deadlocks with {} credits per edge; use more credits, or 0 (unlimited)",
        schedule.name, options.credits);
  };
  // The global order exists only if all actions can finish.
  if (options.blocking && std::ssize(actions.order()) < actions.size()) fail();
  const ScheduleCosts costs = without_scheduled_recompute(schedule, given);
  const StepGraph graph(costs, options, schedule, actions);
  const TaskTimes times = simulate_tasks(graph.tasks());
  if (!times.all_ended()) fail();
  return Reporter(costs, options, actions, graph, times).result();
}

}  // namespace weft::mesh
