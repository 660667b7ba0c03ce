// DualPipeV (DeepSeek, 2025; the cut-in-half form of DualPipe): stages in a V. A forward of one
// chunk pairs with a backward of the other, so that communication of one overlaps computation of
// the other.
#include <algorithm>
#include <deque>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

class DualActor {
 public:
  DualActor(std::vector<Action>& actions, int actor, int actors)
      : actions_(actions), stages_{actor, 2 * actors - 1 - actor} {}

  void forward(int chunk) { actions_.push_back(next_forward(chunk)); }
  void backward(int chunk) { actions_.push_back(next_backward(chunk)); }
  /// Adds a forward and a backward that may overlap.
  void pair(int forward_chunk, int backward_chunk) {
    actions_.push_back(next_forward(forward_chunk));
    actions_.push_back(next_backward(backward_chunk));
    actions_.back().joins_previous = true;
  }
  /// Adds an input gradient and queues its weight gradient for weight().
  void input(int chunk) {
    Action action = next_backward(chunk);
    action.kind = ActionKind::kInputGrad;
    actions_.push_back(action);
    action.kind = ActionKind::kWeightGrad;
    waiting_.push_back(action);
  }
  void weight() {
    actions_.push_back(waiting_.front());
    waiting_.pop_front();
  }

 private:
  Action next_forward(int chunk) {
    return {stages_[chunk], ActionKind::kForward, forwards_[chunk]++};
  }
  Action next_backward(int chunk) {
    return {stages_[chunk], ActionKind::kBackward, backwards_[chunk]++};
  }

  std::vector<Action>& actions_;
  int stages_[2];
  int forwards_[2] = {0, 0}, backwards_[2] = {0, 0};
  std::deque<Action> waiting_;
};

/// Adds the actions until the pipeline is full. `below`: actors after this one in the downward half
/// of the V.
void warm_up(DualActor& actor, int rank, int below) {
  for (int i = 0; i < 2 * below; ++i) actor.forward(0);
  for (int i = 0; i <= rank; ++i) {
    actor.forward(0);
    actor.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    actor.input(1);
    actor.weight();
    actor.forward(1);
  }
}

void run_pairs(DualActor& actor, int pairs, int below) {
  for (int i = 0; i < pairs; ++i) {
    // On the last actor the first backward depends on the forward just before it, so the two cannot
    // overlap.
    if (i == 0 && below == 0) {
      actor.forward(0);
      actor.backward(1);
    } else {
      actor.pair(0, 1);
    }
    actor.pair(1, 0);
  }
  for (int i = 0; i < below; ++i) {
    actor.backward(1);
    actor.pair(1, 0);
  }
}

/// Adds the last actions. From the middle of this phase on, weight gradients are delayed to fill
/// the gaps at its end.
void cool_down(DualActor& actor, int rank, int below) {
  bool put_off = false;
  for (int i = 0; i <= rank; ++i) {
    const bool middle = i == (rank + 1) / 2;
    for (const int chunk : {1, 0}) {
      put_off = put_off || (middle && (rank % 2 == 1 || chunk == 0));
      if (put_off) actor.input(chunk);
      else actor.backward(chunk);
    }
  }
  for (int i = 0; i < below; ++i) {
    actor.weight();
    actor.input(0);
  }
  for (int i = 0; i <= rank; ++i) actor.weight();
}

}  // namespace

Schedule make_dualpipe_v(const ScheduleRequest& request) {
  // The phases need 2p microbatches; surplus microbatches are removed afterwards.
  ScheduleRequest enough = request;
  enough.microbatches = std::max(request.microbatches, 2 * request.actors);
  Schedule schedule = empty_schedule(enough, StagePlacement::kVShaped);
  for (int rank = 0; rank < request.actors; ++rank) {
    const int below = request.actors - 1 - rank;
    DualActor actor(schedule.actors[rank], rank, request.actors);
    warm_up(actor, rank, below);
    run_pairs(actor, enough.microbatches - 2 * request.actors + rank + 1, below);
    cool_down(actor, rank, below);
  }
  return truncate_microbatches(std::move(schedule), request.microbatches);
}

}  // namespace weft::mesh
