#include <algorithm>

#include "mesh/program/mesh_compiler.h"

namespace weft::mesh {

void MeshCompiler::make_recomputations() {
  const bool training = std::any_of(part_.steps.begin(), part_.steps.end(),
                                    [](const Step& step) { return step.pass != Pass::kForward; });
  for (int stage = 0; stage < schedule_.stages && training; ++stage) {
    const std::size_t s = stage;
    const auto& actions = schedule_.actors[actor_];
    const bool scheduled = std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
      return action.kind == ActionKind::kRecompute && action.stage == stage;
    });
    const bool wanted = scheduled || (s < options_.recompute.size() && options_.recompute[s]);
    if (partition_.mesh_of_stage[s] != mesh_index_ || !wanted) continue;
    recomputations_[stage] = {recomputed_steps(part_, stage), scheduled};
  }
}

}  // namespace weft::mesh
