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
  MemoryTimeline& memory_of(int node) { return actors_[graph_.actor(node)]; }
  void change(int node, double time, double amount) { memory_of(node).change(time, amount); }

  void hold_activations(int node) {
    const Action& action = graph_.action(node);
    const StageCosts& stage = costs_.stages[action.stage];
    const std::size_t n = node;
    const double dropped = stage.activations - stage.retained_for_recompute;
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
      case ActionKind::kVocabularyScores:
      case ActionKind::kInputForward:
      case ActionKind::kInputBackward: hold_vocabulary(node); break;
      default: break;
    }
  }

  void hold_vocabulary(int node) {
    const Action& action = graph_.action(node);
    const StageCosts& stage = costs_.stages[action.stage];
    const double start = times_.action_start[node];
    if (action.kind == ActionKind::kInputBackward) {
      const auto made = graph_.find(ActionKind::kInputGrad, 0, action.microbatch);
      memory_of(node).hold(made ? times_.action_end[*made] : start, times_.action_end[node],
                           stage.embedded_held);
      return;
    }
    const double exchanged = end_on_all_actors(node);
    if (action.kind == ActionKind::kVocabularyScores) {
      const auto grads = graph_.find(ActionKind::kVocabularyGrads, action.stage, action.microbatch);
      memory_of(node).hold(start, times_.action_end[grads.value_or(node)], stage.score_memory);
      memory_of(node).hold(start, exchanged, stage.partial_held);
      return;
    }
    const auto used = graph_.find(ActionKind::kForward, 0, action.microbatch);
    const bool keeps = used && graph_.actor(*used) == graph_.actor(node);
    memory_of(node).hold(start, keeps ? times_.action_end[*used] : exchanged, stage.embedded_held);
  }

  /// Returns the time at which the pass of that microbatch has ended on all actors.
  double end_on_all_actors(int node) const {
    const Action& action = graph_.action(node);
    double end = 0;
    for (int stage = 0; stage < std::ssize(costs_.stages); ++stage) {
      if (const auto one = graph_.find(action.kind, stage, action.microbatch))
        end = std::max(end, times_.action_end[*one]);
    }
    return end;
  }

  void hold_tensors() {
    for (const MemoryTimes::TransferTimes& one : times_.transfers) {
      const double bytes = costs_.edges[one.edge].edge.bytes;
      memory_of(one.producer).hold(one.made, one.end, bytes);
      memory_of(one.consumer).hold(one.start, times_.action_end[one.consumer], bytes);
    }
    // Stages of one actor pass a tensor in place.
    for (int node = 0; node < graph_.size(); ++node) {
      for (const ActionGraph::ActionDependency& need : graph_.needs(node)) {
        if (need.edge < 0 || graph_.actor(need.node) != graph_.actor(node)) continue;
        memory_of(node).hold(times_.action_end[need.node], times_.action_end[node],
                             costs_.edges[need.edge].edge.bytes);
      }
    }
  }

  const ScheduleCosts& costs_;
  const ActionGraph& graph_;
  const MemoryTimes& times_;
  std::vector<MemoryTimeline> actors_;
};

}  // namespace

void record_memory(const ScheduleCosts& costs, const ActionGraph& graph, const MemoryTimes& times,
                   bool levels, ScheduleSimulation& simulation) {
  Sweep(costs, graph, times).record(levels, simulation);
}

}  // namespace weft::mesh
