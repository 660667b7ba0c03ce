#include <algorithm>

#include "mesh/schedule/internal/memory.h"

namespace weft::mesh {
namespace {

class Sweep {
 public:
  Sweep(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times)
      : costs_(costs), graph_(graph), times_(times), actors_(graph.num_actors()) {
    for (int node = 0; node < graph.size(); ++node) hold_activations(node);
    hold_tensors();
  }

  void record(bool levels, ScheduleSimulation& simulation) {
    for (std::size_t actor = 0; actor < actors_.size(); ++actor) {
      simulation.actors[actor].peak = actors_[actor].peak();
      if (levels) simulation.actors[actor].memory = actors_[actor].levels();
    }
  }

 private:
  MemorySweep& memory_of(int node) { return actors_[graph_.actor(node)]; }
  void change(int node, double time, double amount) { memory_of(node).change(time, amount); }

  void hold_activations(int node) {
    const Action& action = graph_.action(node);
    const StageCosts& stage = costs_.stages[action.stage];
    const std::size_t n = node;
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
               (action.kind == ActionKind::kInputGrad ? stage.for_weight_grad : 0) -
                   stage.activations);
        break;
      case ActionKind::kWeightGrad:
        change(node, times_.action_end[n], -stage.for_weight_grad);
        break;
      default: break;
    }
  }

  void hold_tensors() {
    for (const MemoryTimes::Transfer& one : times_.transfers) {
      const double bytes = costs_.edges[one.edge].edge.bytes;
      memory_of(one.producer).hold(one.made, one.end, bytes);
      memory_of(one.consumer).hold(one.start, times_.action_end[one.consumer], bytes);
    }
    // Between stages of one actor a tensor is handed over where it lies.
    for (int node = 0; node < graph_.size(); ++node) {
      for (const ActionGraph::Need& need : graph_.needs(node)) {
        if (need.edge < 0 || graph_.actor(need.node) != graph_.actor(node)) continue;
        memory_of(node).hold(times_.action_end[need.node], times_.action_end[node],
                             costs_.edges[need.edge].edge.bytes);
      }
    }
  }

  const ScheduleCosts& costs_;
  const ActionGraph& graph_;
  const MemoryTimes& times_;
  std::vector<MemorySweep> actors_;
};

}  // namespace

void record_memory(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times,
                   bool levels, ScheduleSimulation& simulation) {
  Sweep(costs, graph, times).record(levels, simulation);
}

}  // namespace weft::mesh
