#include <algorithm>
#include <utility>

#include "mesh/simulation/internal/memory.h"

namespace weft::mesh {
namespace {

/// At `first` the level changes by `second`.
using Change = std::pair<double, double>;

class Sweep {
 public:
  Sweep(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times)
      : costs_(costs), graph_(graph), times_(times), changes_(static_cast<std::size_t>(graph.num_actors())) {
    for (int node = 0; node < graph.size(); ++node) hold_activations(node);
    hold_tensors();
  }

  void record(bool levels, Simulation& simulation) {
    for (std::size_t actor = 0; actor < changes_.size(); ++actor) {
      // What is given back at a moment is there for what is taken at the same moment.
      std::ranges::sort(changes_[actor]);
      SimulatedActor& result = simulation.actors[actor];
      double held = 0;
      for (const auto& [time, change] : changes_[actor]) {
        held += change;
        result.peak = std::max(result.peak, held);
        if (!levels) continue;
        if (!result.memory.empty() && result.memory.back().time == time) result.memory.back().held = held;
        else result.memory.push_back({time, held});
      }
    }
  }

 private:
  void change(int node, double time, double amount) {
    if (amount != 0) changes_[static_cast<std::size_t>(graph_.actor(node))].emplace_back(time, amount);
  }

  void hold_activations(int node) {
    const Action& action = graph_.action(node);
    const StageCosts& stage = costs_.stages[static_cast<std::size_t>(action.stage)];
    const auto n = static_cast<std::size_t>(node);
    const double dropped = stage.activations - stage.kept_for_recompute;
    const bool again = graph_.has(ActionKind::kRecompute, action.stage, action.microbatch);
    switch (action.kind) {
      case ActionKind::kForward:
        change(node, times_.action_start[n], stage.activations);
        if (again || stage.recomputes) change(node, times_.action_end[n], -dropped);
        break;
      case ActionKind::kRecompute: change(node, times_.action_start[n], dropped); break;
      case ActionKind::kBackward:
      case ActionKind::kInputGrad:
        if (stage.recomputes) change(node, times_.action_start[n], dropped);
        change(node, times_.action_end[n],
               (action.kind == ActionKind::kInputGrad ? stage.for_weight_grad : 0) - stage.activations);
        break;
      case ActionKind::kWeightGrad: change(node, times_.action_end[n], -stage.for_weight_grad); break;
      default: break;
    }
  }

  void hold_tensors() {
    for (const MemoryTimes::Transfer& one : times_.transfers) {
      const auto bytes = static_cast<double>(costs_.edges[static_cast<std::size_t>(one.edge)].edge.bytes);
      hold(one.producer, one.made, one.end, bytes);
      hold(one.consumer, one.start, times_.action_end[static_cast<std::size_t>(one.consumer)], bytes);
    }
    // Between stages of one actor a tensor is handed over where it lies.
    for (int node = 0; node < graph_.size(); ++node) {
      for (const ActionGraph::Need& need : graph_.needs(node)) {
        if (need.edge < 0 || graph_.actor(need.node) != graph_.actor(node)) continue;
        hold(node, times_.action_end[static_cast<std::size_t>(need.node)], times_.action_end[static_cast<std::size_t>(node)],
             static_cast<double>(costs_.edges[static_cast<std::size_t>(need.edge)].edge.bytes));
      }
    }
  }

  void hold(int node, double from, double to, double bytes) {
    if (to <= from) return;
    change(node, from, bytes);
    change(node, to, -bytes);
  }

  const ScheduleCosts& costs_;
  const ActionGraph& graph_;
  const MemoryTimes& times_;
  std::vector<std::vector<Change>> changes_;
};

}  // namespace

void record_memory(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times, bool levels,
                   Simulation& simulation) {
  Sweep(costs, graph, times).record(levels, simulation);
}

}  // namespace weft::mesh
