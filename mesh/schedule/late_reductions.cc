#include "mesh/schedule/late_reductions.h"

#include <algorithm>
#include <set>
#include <vector>

namespace weft::mesh {
namespace {

/// Returns whether the action adds to gradients that REDUCE_GRAD sums. An actor's vocabulary shard
/// is reduced with the stage whose number its passes carry.
bool adds_gradients(ActionKind kind) {
  return gives_weight_grad(kind) || kind == ActionKind::kVocabularyGrads ||
         kind == ActionKind::kInputBackward;
}

}  // namespace

Schedule with_late_reductions(Schedule schedule) {
  for (std::vector<Action>& actions : schedule.actors) {
    std::set<int> lack;
    for (const Action& action : actions)
      if (adds_gradients(action.kind)) lack.insert(action.stage);
    for (const Action& action : actions)
      if (action.kind == ActionKind::kReduceGrad) lack.erase(action.stage);
    auto end = std::ranges::find(actions, ActionKind::kOptimizer, &Action::kind);
    for (const int stage : lack)
      end = actions.insert(end, {stage, ActionKind::kReduceGrad, kNoMicrobatch}) + 1;
  }
  return schedule;
}

}  // namespace weft::mesh
