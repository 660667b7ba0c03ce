#include <algorithm>

#include "mesh/program/mesh_compiler.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {

void MeshCompiler::make_recomputations() {
  const bool training = std::any_of(part_.steps.begin(), part_.steps.end(),
                                    [](const Step& step) { return step.pass != Pass::kForward; });
  if (!training) return;
  for (const StageId stage : partition_.mesh_of_stage.ids()) {
    if (partition_.mesh_of_stage[stage] != mesh_id_) continue;
    const std::size_t s = stage.value();
    if (spans()) continue;
    const auto& actions = schedule_.actors[actor_of_rank_.front()];
    const bool scheduled = std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
      return action.kind == ActionKind::kRecompute && action.stage == stage.value();
    });
    const bool wanted = scheduled || (s < options_.recompute.size() && options_.recompute[s]);
    if (wanted)
      recomputations_[stage] = {recomputed_steps(part_, stage), recompute_steps(part_, stage),
                                scheduled};
  }
}

}  // namespace weft::mesh
