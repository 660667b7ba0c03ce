// Memory of SearchEvaluator, equal to that of record_memory().
#include <algorithm>

#include "mesh/search/internal/search_evaluator.h"

namespace weft::mesh {

void SearchEvaluator::note_peak(std::size_t actor, double peak, PlayOutcome& outcome) const {
  outcome.peak = std::max(outcome.peak, peak);
  if (!request_.memory_of_actor.empty() && peak > request_.memory_of_actor[actor] * (1 + 1e-9))
    outcome.fits = false;
}

/// Computes peaks if tensors take no memory, so that memory depends on the order only.
void SearchEvaluator::sweep_activations(const Schedule& schedule, PlayOutcome& outcome) {
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    double held = 0, peak = 0;
    for (const Action& action : schedule.actors[actor]) {
      const StageCosts& stage = request_.costs.stages[action.stage];
      const double dropped =
          stage.recomputes ? stage.activations - stage.retained_for_recompute : 0;
      if (action.kind == ActionKind::kForward) held += stage.activations;
      else if (action.kind != ActionKind::kWeightGrad) held += dropped;
      peak = std::max(peak, held);
      switch (action.kind) {
        case ActionKind::kForward: held -= dropped; break;
        case ActionKind::kInputGrad: held += stage.for_weight_grad - stage.activations; break;
        case ActionKind::kWeightGrad: held -= stage.for_weight_grad; break;
        default: held -= stage.activations; break;
      }
    }
    note_peak(actor, peak, outcome);
  }
}

/// Computes peaks if tensors take memory, which depends on their times.
void SearchEvaluator::sweep_tensors(const Schedule& schedule, PlayOutcome& outcome) {
  for (MemoryTimeline& memory : memory_) memory.clear();
  // Ends of F and of the input gradient by (stage, microbatch), for tensors between stages of one
  // actor.
  std::vector<double> forward_end(stages_.size() * microbatches_),
      input_end(stages_.size() * microbatches_);
  for (std::size_t actor = 0; actor < cursors_.size(); ++actor) {
    MemoryTimeline& memory = memory_[actor];
    for (std::size_t i = 0; i < schedule.actors[actor].size(); ++i) {
      const Action& action = schedule.actors[actor][i];
      const auto [start, end] = span(actor, i);
      const std::size_t at = action.stage * microbatches_ + action.microbatch;
      const StageCosts& stage = request_.costs.stages[action.stage];
      const double dropped =
          stage.recomputes ? stage.activations - stage.retained_for_recompute : 0;
      if (action.kind == ActionKind::kForward) {
        forward_end[at] = end;
        memory.change(start, stage.activations);
        memory.change(end, -dropped);
      } else if (action.kind == ActionKind::kWeightGrad) {
        memory.change(end, -stage.for_weight_grad);
      } else {
        input_end[at] = end;
        memory.change(start, dropped);
        memory.change(end, (action.kind == ActionKind::kInputGrad ? stage.for_weight_grad : 0) -
                               stage.activations);
      }
    }
  }
  const auto memory_of = [&](int actor) -> MemoryTimeline& { return memory_[actor]; };
  for (std::size_t l = 0; l < events_.lanes().size(); ++l) {
    const EdgeLane& lane = events_.lanes()[l];
    for (std::size_t i = 0; i < microbatches_; ++i) {
      if (lane.exists) {
        const LaneTransfers::Tensor& one = transfers_.tensor(l, i);
        memory_of(lane.from_actor).hold(one.made, one.end, lane.bytes);
        memory_of(lane.to_actor).hold(one.start, one.used, lane.bytes);
      } else if (lane.from_actor == lane.to_actor) {
        const std::vector<double>& end = ActionEvents::is_backward(l) ? input_end : forward_end;
        memory_of(lane.to_actor)
            .hold(end[lane.from_stage * microbatches_ + i], end[lane.to_stage * microbatches_ + i],
                  lane.bytes);
      }
    }
  }
  for (std::size_t actor = 0; actor < memory_.size(); ++actor)
    note_peak(actor, memory_[actor].peak(), outcome);
}

}  // namespace weft::mesh
