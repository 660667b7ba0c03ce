#include "mesh/simulation/simulate.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "core/base/error.h"
#include "mesh/pipeline/action_graph.h"
#include "mesh/simulation/internal/memory.h"

namespace weft::mesh {
namespace {

/// The events of one step: nodes 0 .. n-1 are the actions, as the graph of actions numbers them, then come the transfers.
class Player {
 public:
  Player(const ScheduleCosts& costs, const SimulationOptions& options, const ActionGraph& graph)
      : costs_(costs), options_(options), graph_(graph), actions_(static_cast<std::size_t>(graph.size())) {
    find_transfers();
    const std::size_t nodes = actions_ + transfers_.size();
    duration_.resize(nodes);
    start_.assign(nodes, 0);
    end_.assign(nodes, 0);
    bound_by_.assign(nodes, -1);
    waits_.assign(nodes, 0);
    for (std::size_t node = 0; node < actions_; ++node) duration_[node] = duration(costs, graph.action(static_cast<int>(node)));
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      const EdgeCosts& edge = costs.edges[static_cast<std::size_t>(transfers_[t].edge)];
      duration_[actions_ + t] = transfers_[t].backward ? edge.backward : edge.forward;
    }
    if (costs.pair_time > 0) join_pairs();
    add_arcs();
  }

  /// Returns false if not everything could run.
  bool play() { return costs_.nic_of_actor.empty() ? play_freely() : play_with_interfaces(); }

  Simulation result() const {
    Simulation simulation;
    double busiest = 0;
    for (int actor = 0; actor < graph_.num_actors(); ++actor) simulation.actors.push_back(actor_result(actor));
    for (const SimulatedActor& actor : simulation.actors) {
      simulation.makespan = std::max(simulation.makespan, actor.end);
      busiest = std::max(busiest, actor.work);
      simulation.span_bubble = std::max(simulation.span_bubble, actor.end - actor.start - actor.work);
      simulation.exposed += actor.exposed / static_cast<double>(simulation.actors.size());
    }
    simulation.makespan_bubble = simulation.makespan - busiest;
    for (std::size_t node = 0; node < actions_; ++node) simulation.mean_end += end_[node] / static_cast<double>(actions_);
    if (options_.details) {
      for (std::size_t t = 0; t < transfers_.size(); ++t) {
        const Transfer& one = transfers_[t];
        simulation.transfers.push_back({one.edge, one.backward, graph_.action(one.producer).microbatch,
                                        graph_.actor(one.producer), graph_.actor(one.consumer), start_[actions_ + t],
                                        end_[actions_ + t]});
      }
      simulation.critical_path = critical_path();
    }
    record_memory(costs_, graph_, memory_times(), options_.details, simulation);
    return simulation;
  }

 private:
  struct Transfer {
    int edge = 0;
    bool backward = false;
    int producer = 0;
    int consumer = 0;
  };

  void find_transfers() {
    for (int node = 0; node < graph_.size(); ++node) {
      for (const ActionGraph::Need& need : graph_.needs(node)) {
        if (need.edge < 0 || graph_.actor(need.node) == graph_.actor(node)) continue;
        transfers_.push_back({need.edge, graph_.action(node).kind != ActionKind::kForward, need.node, node});
      }
    }
    // Per edge and direction in the order in which they are produced: one after the other.
    std::ranges::sort(transfers_, {}, [](const Transfer& one) { return std::tuple(one.edge, one.backward, one.producer); });
  }

  bool same_lane(std::size_t a, std::size_t b) const {
    return transfers_[a].edge == transfers_[b].edge && transfers_[a].backward == transfers_[b].backward;
  }

  /// A compound is one action: its first member takes the time of all, and the others end with it.
  void join_pairs() {
    head_.resize(actions_);
    for (std::size_t node = 0; node < actions_; ++node) {
      const bool joins = graph_.action(static_cast<int>(node)).joins_previous && graph_.previous(static_cast<int>(node)) >= 0;
      head_[node] = joins ? head_[node - 1] : static_cast<int>(node);
      if (!joins) continue;
      duration_[static_cast<std::size_t>(head_[node])] += duration_[node];
      duration_[node] = 0;
    }
    for (std::size_t node = 1; node < actions_; ++node) {
      const auto head = static_cast<std::size_t>(head_[node]);
      if (head == node - 1) duration_[head] *= costs_.pair_time;
    }
  }

  template <typename Visit>
  void for_each_arc(const Visit& visit) const {
    for (int node = 0; node < graph_.size(); ++node) {
      const int first = head_.empty() ? node : head_[static_cast<std::size_t>(node)];
      if (graph_.previous(node) >= 0) visit(node - 1, node);
      for (const ActionGraph::Need& need : graph_.needs(node)) {
        // What comes by a transfer waits for the transfer, below.
        if (need.edge < 0 || graph_.actor(need.node) == graph_.actor(node)) visit(need.node, first);
      }
    }
    const auto credits = static_cast<std::size_t>(options_.credits);
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      const int node = static_cast<int>(actions_ + t);
      const int consumer = transfers_[t].consumer;
      visit(transfers_[t].producer, node);
      visit(node, head_.empty() ? consumer : head_[static_cast<std::size_t>(consumer)]);
      if (t > 0 && same_lane(t - 1, t)) visit(node - 1, node);
      if (credits == 0 || t < credits || !same_lane(t - credits, t)) continue;
      visit(transfers_[t - credits].consumer, node);
      const int next = transfers_[t].producer + 1;
      if (next < graph_.first(graph_.actor(transfers_[t].producer) + 1)) visit(node - options_.credits, next);
    }
  }

  void add_arcs() {
    const std::size_t nodes = duration_.size();
    arc_begin_.assign(nodes + 1, 0);
    for_each_arc([&](int from, int to) {
      ++arc_begin_[static_cast<std::size_t>(from) + 1];
      ++waits_[static_cast<std::size_t>(to)];
    });
    for (std::size_t node = 0; node < nodes; ++node) arc_begin_[node + 1] += arc_begin_[node];
    arcs_.resize(static_cast<std::size_t>(arc_begin_.back()));
    std::vector<int> at(arc_begin_.begin(), arc_begin_.end() - 1);
    for_each_arc([&](int from, int to) { arcs_[static_cast<std::size_t>(at[static_cast<std::size_t>(from)]++)] = to; });
  }

  /// Passes the end of `node` on; calls `ready` for those that wait for nothing else.
  template <typename Ready>
  void release(std::size_t node, const Ready& ready) {
    for (int arc = arc_begin_[node]; arc < arc_begin_[node + 1]; ++arc) {
      const int to = arcs_[static_cast<std::size_t>(arc)];
      const auto t = static_cast<std::size_t>(to);
      if (end_[node] > start_[t] || bound_by_[t] < 0) {
        start_[t] = std::max(start_[t], end_[node]);
        bound_by_[t] = static_cast<int>(node);
      }
      if (--waits_[t] == 0) ready(to);
    }
  }

  bool play_freely() {
    std::vector<int> done;
    done.reserve(duration_.size());
    for (std::size_t node = 0; node < duration_.size(); ++node) {
      if (waits_[node] == 0) done.push_back(static_cast<int>(node));
    }
    for (std::size_t at = 0; at < done.size(); ++at) {
      const auto node = static_cast<std::size_t>(done[at]);
      end_[node] = start_[node] + duration_[node];
      release(node, [&](int next) { done.push_back(next); });
    }
    return done.size() == duration_.size();
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
    for (std::size_t node = 0; node < duration_.size(); ++node) {
      if (waits_[node] == 0) queue.push({0, static_cast<int>(node)});
    }
    std::size_t done = 0;
    for (; !queue.empty(); ++done) {
      const auto node = static_cast<std::size_t>(queue.top().second);
      queue.pop();
      if (node >= actions_) {
        const Transfer& one = transfers_[node - actions_];
        const auto nic = [&](int action) {
          return static_cast<std::size_t>(costs_.nic_of_actor[static_cast<std::size_t>(graph_.actor(action))]);
        };
        // Actors behind one interface reach each other without it.
        if (nic(one.producer) != nic(one.consumer)) {
          for (Interface* side : {&out[nic(one.producer)], &in[nic(one.consumer)]}) {
            if (side->free_at <= start_[node]) continue;
            start_[node] = side->free_at;
            bound_by_[node] = side->last;
          }
          for (Interface* side : {&out[nic(one.producer)], &in[nic(one.consumer)]}) {
            *side = {start_[node] + duration_[node], static_cast<int>(node)};
          }
        }
      }
      end_[node] = start_[node] + duration_[node];
      release(node, [&](int next) { queue.push({start_[static_cast<std::size_t>(next)], next}); });
    }
    return done == duration_.size();
  }

  double action_start(int node) const {
    return start_[static_cast<std::size_t>(head_.empty() ? node : head_[static_cast<std::size_t>(node)])];
  }

  SimulatedActor actor_result(int actor) const {
    SimulatedActor result;
    if (graph_.first(actor) < graph_.first(actor + 1)) {
      result.start = start_[static_cast<std::size_t>(graph_.first(actor))];
      result.end = end_[static_cast<std::size_t>(graph_.first(actor + 1)) - 1];
    }
    for (int node = graph_.first(actor); node < graph_.first(actor + 1); ++node) {
      const auto n = static_cast<std::size_t>(node);
      result.work += duration_[n];
      result.exposed += exposed(node);
      if (options_.details) result.actions.push_back({graph_.action(node), action_start(node), end_[n]});
    }
    return result;
  }

  /// The part of the idle time before an action in which all that was missing was on its way.
  double exposed(int node) const {
    const auto n = static_cast<std::size_t>(node);
    int by = bound_by_[n];
    if (by < static_cast<int>(actions_)) return 0;
    const double free_from = graph_.previous(node) >= 0 ? end_[n - 1] : 0;
    const int producer = transfers_[static_cast<std::size_t>(by) - actions_].producer;
    return std::max(0.0, start_[n] - std::max(free_from, end_[static_cast<std::size_t>(producer)]));
  }

  std::vector<Simulation::PathStep> critical_path() const {
    std::vector<Simulation::PathStep> path;
    int node = -1;
    for (std::size_t one = 0; one < actions_; ++one) {
      if (node < 0 || end_[one] > end_[static_cast<std::size_t>(node)]) node = static_cast<int>(one);
    }
    for (; node >= 0; node = bound_by_[static_cast<std::size_t>(node)]) {
      const auto n = static_cast<std::size_t>(node);
      if (n < actions_) {
        path.push_back({graph_.actor(node), node - graph_.first(graph_.actor(node)), false});
      } else {
        path.push_back({graph_.actor(transfers_[n - actions_].consumer), static_cast<int>(n - actions_), true});
      }
    }
    std::ranges::reverse(path);
    return path;
  }

  MemoryTimes memory_times() const {
    MemoryTimes times;
    for (int node = 0; node < graph_.size(); ++node) {
      times.action_start.push_back(action_start(node));
      times.action_end.push_back(end_[static_cast<std::size_t>(node)]);
    }
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      times.transfers.push_back(
          {transfers_[t].edge, transfers_[t].producer, transfers_[t].consumer, start_[actions_ + t], end_[actions_ + t]});
    }
    return times;
  }

  const ScheduleCosts& costs_;
  const SimulationOptions& options_;
  const ActionGraph& graph_;
  const std::size_t actions_;
  std::vector<Transfer> transfers_;
  std::vector<int> head_;  ///< The first action of each action's compound; empty if compounds are not one.
  std::vector<double> duration_, start_, end_;
  std::vector<int> bound_by_;  ///< The node whose end let each one start, or -1.
  std::vector<int> waits_, arc_begin_, arcs_;
};

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

Simulation simulate(const Schedule& schedule, const ScheduleCosts& costs, const SimulationOptions& options) {
  const std::vector<StageEdge> edges = costs.stage_edges();
  const ActionGraph graph(schedule, edges);
  check(schedule, costs, graph);
  Player player(costs, options, graph);
  if (player.play()) return player.result();
  if (const std::vector<int> cycle = graph.find_cycle(); !cycle.empty()) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' cannot finish: {}", schedule.name, describe_cycle(graph, cycle));
  }
  throw_error(ErrorCode::kInvalidArgument,
              "schedule '{}' cannot finish with {} credits per edge{}; give it more, or none (any number)", schedule.name,
              options.credits, costs.pair_time > 0 ? " and compounds that run as one" : "");
}

}  // namespace weft::mesh
