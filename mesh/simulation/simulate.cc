#include "mesh/simulation/simulate.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "core/base/error.h"
#include "mesh/pipeline/action_graph.h"
#include "mesh/simulation/internal/fair_interfaces.h"
#include "mesh/simulation/internal/memory.h"
#include "mesh/simulation/internal/step_graph.h"

namespace weft::mesh {
namespace {

/// Plays a step graph.
class Player {
 public:
  Player(const ScheduleCosts& costs, const SimulationOptions& options, const ActionGraph& actions, const StepGraph& graph)
      : costs_(costs),
        options_(options),
        actions_(actions),
        graph_(graph),
        start_(graph.size(), 0),
        end_(graph.size(), 0),
        bound_by_(graph.size(), -1),
        waits_(graph.num_waits()) {}

  /// Returns false if not everything could run.
  bool play() {
    if (costs_.nic_of_actor.empty()) return play_freely();
    return costs_.sharing == InterfaceSharing::kFair ? play_with_fair_interfaces() : play_with_interfaces();
  }

  Simulation result() const {
    Simulation simulation;
    double busiest = 0;
    for (int actor = 0; actor < actions_.num_actors(); ++actor) simulation.actors.push_back(actor_result(actor));
    add_standing(simulation);
    for (const SimulatedActor& actor : simulation.actors) {
      simulation.makespan = std::max(simulation.makespan, actor.end);
      busiest = std::max(busiest, actor.work);
      simulation.span_bubble = std::max(simulation.span_bubble, actor.end - actor.start - actor.work);
      simulation.exposed += actor.exposed / static_cast<double>(simulation.actors.size());
    }
    simulation.makespan_bubble = simulation.makespan - busiest;
    for (int action = 0; action < actions_.size(); ++action) simulation.mean_end += action_end(action) / actions_.size();
    simulation.step = step_end(simulation);
    if (options_.details) {
      for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
        const StepGraph::Transfer& one = graph_.transfer_of(node);
        simulation.transfers.push_back({one.edge, one.backward, actions_.action(one.producer).microbatch,
                                        actions_.actor(one.producer), actions_.actor(one.consumer), start_[node], end_[node]});
      }
      simulation.critical_path = critical_path();
    }
    record_memory(costs_, actions_, memory_times(), options_.details, simulation);
    return simulation;
  }

 private:
  /// Passes the end of `node` on; calls `ready` for those that wait for nothing else.
  template <typename Ready>
  void release(std::size_t node, const Ready& ready) {
    const auto [begin, end] = graph_.waiting_for(node);
    for (const int* to = begin; to != end; ++to) {
      const auto t = static_cast<std::size_t>(*to);
      if (end_[node] > start_[t] || bound_by_[t] < 0) {
        start_[t] = std::max(start_[t], end_[node]);
        bound_by_[t] = static_cast<int>(node);
      }
      if (--waits_[t] == 0) ready(*to);
    }
  }

  bool play_freely() {
    std::vector<int> done;
    done.reserve(graph_.size());
    for (std::size_t node = 0; node < graph_.size(); ++node) {
      if (waits_[node] == 0) done.push_back(static_cast<int>(node));
    }
    for (std::size_t at = 0; at < done.size(); ++at) {
      const auto node = static_cast<std::size_t>(done[at]);
      end_[node] = start_[node] + graph_.duration(node);
      release(node, [&](int next) { done.push_back(next); });
    }
    return done.size() == graph_.size();
  }

  /// In the order of time, so that interfaces serve who comes first.
  bool play_with_interfaces() {
    const std::size_t nics = static_cast<std::size_t>(*std::ranges::max_element(costs_.nic_of_actor)) + 1;
    struct Interface {
      double free_at = 0;
      int last = -1;
    };
    std::vector<Interface> out(nics), in(nics);
    using Event = std::pair<double, int>;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
    for (std::size_t node = 0; node < graph_.size(); ++node) {
      if (waits_[node] == 0) queue.push({0, static_cast<int>(node)});
    }
    std::size_t done = 0;
    for (; !queue.empty(); ++done) {
      const auto node = static_cast<std::size_t>(queue.top().second);
      queue.pop();
      if (node >= graph_.num_pieces()) {
        const StepGraph::Transfer& one = graph_.transfer_of(node);
        const std::size_t from = interface_of(one.producer), to = interface_of(one.consumer);
        // Actors behind one interface reach each other without it.
        if (from != to) {
          for (Interface* side : {&out[from], &in[to]}) {
            if (side->free_at <= start_[node]) continue;
            start_[node] = side->free_at;
            bound_by_[node] = side->last;
          }
          for (Interface* side : {&out[from], &in[to]}) *side = {start_[node] + graph_.duration(node), static_cast<int>(node)};
        }
      }
      end_[node] = start_[node] + graph_.duration(node);
      release(node, [&](int next) { queue.push({start_[static_cast<std::size_t>(next)], next}); });
    }
    return done == graph_.size();
  }

  /// In the order of time too, but a transfer's end is known only when it comes: others may join it.
  bool play_with_fair_interfaces() {
    FairInterfaces interfaces(static_cast<std::size_t>(*std::ranges::max_element(costs_.nic_of_actor)) + 1);
    using Event = std::pair<double, int>;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> queue;
    for (std::size_t node = 0; node < graph_.size(); ++node) {
      if (waits_[node] == 0) queue.push({0, static_cast<int>(node)});
    }
    const auto ready = [&](int next) { queue.push({start_[static_cast<std::size_t>(next)], next}); };
    std::size_t done = 0;
    while (true) {
      const std::optional<double> end = interfaces.next_end();
      if (queue.empty() && !end) break;
      if (end && (queue.empty() || *end < queue.top().first)) {
        interfaces.advance(*end);
        const FairInterfaces::Ended ended = interfaces.take_ended();
        const auto node = static_cast<std::size_t>(ended.transfer);
        if (ended.moved_at > start_[node]) bound_by_[node] = ended.after;
        start_[node] = ended.moved_at;
        end_[node] = *end + latency(node);
        release(node, ready);
        ++done;
        continue;
      }
      const auto [time, next] = queue.top();
      queue.pop();
      const auto node = static_cast<std::size_t>(next);
      if (node >= graph_.num_pieces() && graph_.duration(node) > 0) {
        const StepGraph::Transfer& one = graph_.transfer_of(node);
        const std::size_t from = interface_of(one.producer), to = interface_of(one.consumer);
        if (from != to) {
          interfaces.advance(time);
          interfaces.add(next, from, to, graph_.timing(one).share, graph_.duration(node) - latency(node));
          continue;
        }
      }
      end_[node] = start_[node] + graph_.duration(node);
      release(node, ready);
      ++done;
    }
    return done == graph_.size();
  }

  double latency(std::size_t node) const {
    return std::min(graph_.timing(graph_.transfer_of(node)).latency, graph_.duration(node));
  }

  std::size_t interface_of(int action) const {
    return static_cast<std::size_t>(costs_.nic_of_actor[static_cast<std::size_t>(actions_.actor(action))]);
  }

  double action_start(int action) const { return start_[graph_.first_piece(graph_.head(action))]; }
  double action_end(int action) const { return end_[graph_.last_piece(action)]; }

  SimulatedActor actor_result(int actor) const {
    SimulatedActor result;
    const int first = actions_.first(actor), past = actions_.first(actor + 1);
    if (first < past) {
      result.start = start_[graph_.first_piece(first)];
      result.end = action_end(past - 1);
    }
    for (int action = first; action < past; ++action) {
      for (std::size_t piece = graph_.first_piece(action); piece <= graph_.last_piece(action); ++piece) {
        result.work += graph_.duration(piece);
        if (!options_.blocking) result.exposed += exposed(piece, action > first || piece > graph_.first_piece(action));
      }
      if (options_.details) result.actions.push_back({actions_.action(action), action_start(action), action_end(action)});
    }
    return result;
  }

  /// The part of the idle time before a piece in which all that was missing was on its way.
  double exposed(std::size_t piece, bool follows) const {
    const int by = bound_by_[piece];
    if (by < static_cast<int>(graph_.num_pieces())) return 0;
    const double free_from = follows ? end_[piece - 1] : 0;
    const double made = end_[static_cast<std::size_t>(graph_.transfer_of(static_cast<std::size_t>(by)).made_by)];
    return std::max(0.0, start_[piece] - std::max(free_from, made));
  }

  /// Who blocks in a transfer stands still for all of it.
  void add_standing(Simulation& simulation) const {
    if (!options_.blocking) return;
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::Transfer& one = graph_.transfer_of(node);
      for (const int end : {one.producer, one.consumer}) {
        simulation.actors[static_cast<std::size_t>(actions_.actor(end))].exposed += graph_.duration(node);
      }
    }
  }

  /// Sends are over, gradients reduced; then all meet, and take their optimizer steps. What the schedule has of this was played.
  double step_end(const Simulation& simulation) const {
    const std::size_t actors = simulation.actors.size();
    std::vector<double> computed, sent(actors, 0), reduce(actors, 0), optimizer(actors, 0);
    for (std::size_t actor = 0; actor < actors; ++actor) {
      const auto [reduced, then] = reductions(static_cast<int>(actor));
      computed.push_back(std::max(simulation.actors[actor].end, reduced + then));
    }
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage) {
      const std::size_t actor = actor_of_stage(static_cast<int>(stage));
      const auto lacks = [&](ActionKind kind) { return !actions_.has(kind, static_cast<int>(stage), kNoMicrobatch); };
      if (lacks(ActionKind::kReduceGrad)) reduce[actor] += costs_.stages[stage].reduce_grad;
      if (lacks(ActionKind::kOptimizer)) optimizer[actor] += costs_.stages[stage].optimizer;
    }
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::Transfer& one = graph_.transfer_of(node);
      for (const int end : {one.producer, one.consumer}) {
        double& over = (options_.blocking ? computed : sent)[static_cast<std::size_t>(actions_.actor(end))];
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

  /// When what the actor's REDUCE_GRADs have begun is over, and what its OPTs take, which need it.
  std::pair<double, double> reductions(int actor) const {
    double over = 0, optimizer = 0;
    for (int action = actions_.first(actor); action < actions_.first(actor + 1) && !options_.blocking; ++action) {
      const Action& one = actions_.action(action);
      const StageCosts& stage = costs_.stages[static_cast<std::size_t>(one.stage)];
      if (one.kind == ActionKind::kReduceGrad) over = std::max(over, action_end(action)) + stage.reduce_grad;
      if (one.kind == ActionKind::kOptimizer) optimizer += stage.optimizer;
    }
    return over > 0 ? std::pair(over, optimizer) : std::pair(0.0, 0.0);
  }

  std::size_t actor_of_stage(int stage) const {
    const auto first = actions_.find(ActionKind::kForward, stage, 0);
    return first ? static_cast<std::size_t>(actions_.actor(*first)) : 0;
  }

  std::vector<Simulation::PathStep> critical_path() const {
    std::vector<Simulation::PathStep> path;
    int node = -1;
    for (int action = 0; action < actions_.size(); ++action) {
      const int last = static_cast<int>(graph_.last_piece(action));
      if (node < 0 || end_[static_cast<std::size_t>(last)] > end_[static_cast<std::size_t>(node)]) node = last;
    }
    for (; node >= 0; node = bound_by_[static_cast<std::size_t>(node)]) {
      const auto n = static_cast<std::size_t>(node);
      Simulation::PathStep step;
      if (n < graph_.num_pieces()) {
        const int action = graph_.action_of(n), actor = actions_.actor(action);
        step = {actor, action - actions_.first(actor), false};
      } else {
        step = {actions_.actor(graph_.transfer_of(n).consumer), static_cast<int>(n - graph_.num_pieces()), true};
      }
      if (path.empty() || path.back() != step) path.push_back(step);
    }
    std::ranges::reverse(path);
    return path;
  }

  MemoryTimes memory_times() const {
    MemoryTimes times;
    for (int action = 0; action < actions_.size(); ++action) {
      times.action_start.push_back(action_start(action));
      times.action_end.push_back(action_end(action));
    }
    for (std::size_t node = graph_.num_pieces(); node < graph_.size(); ++node) {
      const StepGraph::Transfer& one = graph_.transfer_of(node);
      times.transfers.push_back(
          {one.edge, one.producer, one.consumer, end_[static_cast<std::size_t>(one.made_by)], start_[node], end_[node]});
    }
    return times;
  }

  const ScheduleCosts& costs_;
  const SimulationOptions& options_;
  const ActionGraph& actions_;
  const StepGraph& graph_;
  std::vector<double> start_, end_;
  std::vector<int> bound_by_;  ///< The node whose end let each one start, or -1.
  std::vector<int> waits_;
};

/// An R that the schedule has is not also in the stage's backward.
ScheduleCosts fit(const Schedule& schedule, const ScheduleCosts& costs) {
  ScheduleCosts result = costs;
  for (const std::vector<Action>& actions : schedule.actors) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kRecompute) result.stages[static_cast<std::size_t>(action.stage)].recomputes = false;
    }
  }
  return result;
}

void check(const Schedule& schedule, const ScheduleCosts& costs, const ActionGraph& graph) {
  if (static_cast<int>(costs.stages.size()) != schedule.stages) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has {} stages, but {} have times", schedule.name, schedule.stages,
                costs.stages.size());
  }
  if (!costs.nic_of_actor.empty() && costs.nic_of_actor.size() != schedule.actors.size()) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' has {} actors, but {} have a network interface", schedule.name,
                schedule.actors.size(), costs.nic_of_actor.size());
  }
  for (const ActionGraph::Missing& missing : graph.missing()) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}', actor {}: {} needs {}, which the schedule lacks", schedule.name,
                graph.actor(missing.node), to_string(graph.action(missing.node)), to_string(missing.what));
  }
}

}  // namespace

double Simulation::peak() const {
  double most = 0;
  for (const SimulatedActor& actor : actors) most = std::max(most, actor.peak);
  return most;
}

Simulation simulate(const Schedule& schedule, const ScheduleCosts& given, const SimulationOptions& options) {
  const std::vector<StageEdge> edges = given.stage_edges();
  const ActionGraph actions(schedule, edges);
  check(schedule, given, actions);
  const auto fail = [&] {
    const std::vector<int> cycle = actions.find_cycle();
    if (!cycle.empty()) {
      throw_error(ErrorCode::kInvalidArgument, "schedule '{}' cannot finish: {}", schedule.name, describe_cycle(actions, cycle));
    }
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' cannot finish with {} credits per edge{}; give it more, or none (any number)", schedule.name,
                options.credits, given.pair_time > 0 ? " and compounds that run as one" : "");
  };
  // The one order of everything exists only where everything can finish.
  if (options.blocking && static_cast<int>(actions.order().size()) < actions.size()) fail();
  const ScheduleCosts costs = fit(schedule, given);
  const StepGraph graph(costs, options, schedule, actions);
  Player player(costs, options, actions, graph);
  if (!player.play()) fail();
  return player.result();
}

}  // namespace weft::mesh
