// ZB-V (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024): two stages per actor.
// The second half of the model is placed in reverse, so that the last actor starts backwards early
// and all actors hold the same memory.
#include <algorithm>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

/// Builder of one actor's actions. Each chunk and kind runs its microbatches in order.
class VActor {
 public:
  VActor(std::vector<Action>& actions, int actor, int actors)
      : actions_(actions), stages_{actor, 2 * actors - 1 - actor} {}

  void forward(int chunk) { add(chunk, ActionKind::kForward, forwards_[chunk]++); }
  void input(int chunk) { add(chunk, ActionKind::kInputGrad, inputs_[chunk]++); }
  void weight(int chunk) { add(chunk, ActionKind::kWeightGrad, weights_[chunk]++); }
  int forwards(int chunk) const { return forwards_[chunk]; }
  bool weight_left(int chunk) const { return weights_[chunk] < inputs_[chunk]; }

 private:
  void add(int chunk, ActionKind kind, int microbatch) {
    actions_.push_back({stages_[chunk], kind, microbatch});
  }

  std::vector<Action>& actions_;
  int stages_[2];
  int forwards_[2] = {0, 0}, inputs_[2] = {0, 0}, weights_[2] = {0, 0};
};

}  // namespace

Schedule make_zb_v(const ScheduleRequest& request) {
  // The pattern needs 2p - 1 microbatches; surplus microbatches are removed afterwards.
  ScheduleRequest enough = request;
  enough.microbatches = std::max(request.microbatches, 2 * request.actors - 1);
  Schedule schedule = empty_schedule(enough, StagePlacement::kVShaped);
  const int p = request.actors, m = enough.microbatches;
  for (int rank = 0; rank < p; ++rank) {
    VActor actor(schedule.actors[rank], rank, p);
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) actor.forward(0);
    for (int i = 0; i < rank; ++i) {
      actor.forward(1);
      actor.forward(0);
    }
    for (int i = 0; i < p - rank; ++i) {
      actor.forward(1);
      actor.input(1);
      actor.weight(1);
    }
    while (actor.forwards(1) < m) {
      if (actor.forwards(0) < m) actor.forward(0);
      actor.input(0);
      actor.weight(0);
      actor.forward(1);
      actor.input(1);
      actor.weight(1);
    }
    for (int i = 0; i < rank; ++i) {
      actor.input(0);
      actor.input(1);
    }
    for (int i = 0; i < p - rank; ++i) {
      actor.input(0);
      actor.weight(0);
    }
    for (const int chunk : {1, 0}) {
      while (actor.weight_left(chunk)) actor.weight(chunk);
    }
  }
  return truncate_microbatches(std::move(schedule), request.microbatches);
}

}  // namespace weft::mesh
