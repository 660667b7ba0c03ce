// ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024): with memory for 2p - 1
// microbatches on every actor, the only bubble of a step is the staggered start.
#include <algorithm>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {

/// Simulates ticks; every action takes one. In each tick an actor runs the first of these that it
/// can: a ready input gradient; a ready forward, if fewer than 2p - 1 microbatches wait for their
/// W; the oldest W.
Schedule make_zb_h2(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, StagePlacement::kOnePerActor);
  const int p = request.actors, m = request.microbatches, limit = 2 * p - 1;
  struct ActorProgress {
    int forwards = 0, inputs = 0, weights = 0;
  };
  std::vector<ActorProgress> now(p);
  for (bool busy = true; busy;) {
    busy = false;
    // Progress of the neighbours at the start of the tick.
    const std::vector<ActorProgress> before = now;
    for (int actor = 0; actor < p; ++actor) {
      const std::size_t a = actor;
      ActorProgress& own = now[a];
      const int sent_up = actor == 0 ? m : before[a - 1].forwards;
      const int sent_down = actor == p - 1 ? own.forwards : before[a + 1].inputs;
      std::vector<Action>& actions = schedule.actors[a];
      if (own.inputs < std::min(own.forwards, sent_down)) {
        actions.push_back({actor, ActionKind::kInputGrad, own.inputs++});
      } else if (own.forwards < sent_up && own.forwards - own.weights < limit) {
        actions.push_back({actor, ActionKind::kForward, own.forwards++});
      } else if (own.weights < own.inputs) {
        actions.push_back({actor, ActionKind::kWeightGrad, own.weights++});
      }
      busy = busy || own.weights < m;
    }
  }
  return schedule;
}

}  // namespace weft::mesh
