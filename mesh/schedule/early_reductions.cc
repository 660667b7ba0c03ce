#include "mesh/schedule/early_reductions.h"

#include <set>

namespace weft::mesh {

Schedule with_early_reductions(Schedule schedule) {
  std::set<int> have;
  for (const std::vector<Action>& actions : schedule.actors) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kReduceGrad) have.insert(action.stage);
    }
  }
  for (std::vector<Action>& actions : schedule.actors) {
    std::vector<Action> all;
    for (const Action& action : actions) {
      all.push_back(action);
      const bool last =
          gives_weight_grad(action.kind) && action.microbatch + 1 == schedule.microbatches;
      if (last && !have.contains(action.stage))
        all.push_back({action.stage, ActionKind::kReduceGrad, kNoMicrobatch});
    }
    actions = std::move(all);
  }
  return schedule;
}

}  // namespace weft::mesh
