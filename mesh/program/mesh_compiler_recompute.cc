#include <algorithm>
#include <map>

#include "mesh/program/mesh_compiler.h"

namespace weft::mesh {

void MeshCompiler::make_recomputations() {
  const bool training =
      std::any_of(part_.steps.begin(), part_.steps.end(), [](const Step& step) { return step.pass != Pass::kForward; });
  for (int stage = 0; stage < schedule_.stages && training; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const auto& actions = schedule_.actors[actor_];
    const bool scheduled = std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
      return action.kind == ActionKind::kRecompute && action.stage == stage;
    });
    const bool wanted = scheduled || (s < options_.recompute.size() && options_.recompute[s]);
    if (partition_.mesh_of_stage[s] != mesh_index_ || !wanted) continue;
    std::map<LocalId, std::size_t> made;  // By the stage's forward; what others use stays, so only the rest is listed.
    for (std::size_t i = 0; i < part_.steps.size(); ++i) {
      if (part_.steps[i].stage != stage || part_.steps[i].pass != Pass::kForward) continue;
      for (const LocalId output : outputs_of(part_.steps[i])) made[output] = i;
    }
    for (const Step& step : part_.steps) {
      if (step.stage == stage) continue;
      for (const LocalId input : inputs_of(step)) made.erase(input);
    }
    Recomputation& recomputation = recomputations_[stage];
    recomputation.scheduled = scheduled;
    std::vector<LocalId> needed;
    for (const auto& [id, step] : made) recomputation.dropped.insert(id);
    for (const Step& step : part_.steps) {
      if (step.stage != stage || step.pass == Pass::kForward) continue;
      for (const LocalId input : inputs_of(step)) needed.push_back(input);
    }
    while (!needed.empty()) {
      const auto found = made.find(needed.back());
      needed.pop_back();
      if (found == made.end() || !recomputation.steps.insert(found->second).second) continue;
      for (const LocalId input : inputs_of(part_.steps[found->second])) needed.push_back(input);
    }
  }
}

}  // namespace weft::mesh
