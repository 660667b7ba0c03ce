#include "mesh/schedule/early_reductions.h"

#include <cstddef>
#include <map>
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

Schedule with_early_reductions(Schedule schedule) {
  std::set<int> have;
  for (const std::vector<Action>& actions : schedule.actors) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kReduceGrad) have.insert(action.stage);
    }
  }
  for (std::vector<Action>& actions : schedule.actors) {
    std::map<int, std::size_t> last_of_stage;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (adds_gradients(actions[i].kind)) last_of_stage[actions[i].stage] = i;
    }
    std::vector<Action> all;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const int stage = actions[i].stage;
      all.push_back(actions[i]);
      const bool last = adds_gradients(actions[i].kind) && last_of_stage.at(stage) == i;
      if (last && !have.contains(stage))
        all.push_back({stage, ActionKind::kReduceGrad, kNoMicrobatch});
    }
    actions = std::move(all);
  }
  return schedule;
}

}  // namespace weft::mesh
