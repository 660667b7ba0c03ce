#include "mesh/program/internal/action_steps.h"

#include <algorithm>

#include "mesh/program/step_order.h"

namespace weft::mesh {

ActionSteps::ActionSteps(MeshView mesh, const Schedule& schedule, int actor,
                         const std::vector<bool>& recompute)
    : mesh_(mesh), barriers_(schedule.vocabulary_barriers) {
  if (mesh.spans()) {
    deferred_ = deferred_score_steps(mesh.part(), mesh.partition().vocabulary->output, barriers_);
  } else {
    find_recomputations(schedule, actor, recompute);
  }
}

void ActionSteps::find_recomputations(const Schedule& schedule, int actor,
                                      const std::vector<bool>& recompute) {
  const MeshPartition& part = mesh_.part();
  const bool training =
      std::ranges::any_of(part.steps, [](const Step& step) { return step.pass != Pass::kForward; });
  if (!training) return;
  const auto& mesh_of_stage = mesh_.partition().mesh_of_stage;
  for (const StageId stage : mesh_of_stage.ids()) {
    if (mesh_of_stage[stage] != mesh_.id()) continue;
    const bool scheduled = std::ranges::any_of(schedule.actors[actor], [&](const Action& action) {
      return action.kind == ActionKind::kRecompute && action.stage == stage.value();
    });
    const std::size_t s = stage.value();
    if (scheduled || (s < recompute.size() && recompute[s]))
      recomputations_[stage] = {recomputed_steps(part, stage), recompute_steps(part, stage),
                                scheduled};
  }
}

std::vector<ActionStep> ActionSteps::of(StageId stage, ActionKind kind) const {
  std::vector<ActionStep> steps;
  const auto again = recomputations_.find(stage);
  if (again != recomputations_.end() && again->second.runs_before(kind))
    for (const std::size_t step : again->second.order)
      steps.push_back({step, ActionStep::Round::kRecompute});
  // With two barriers, the second half of S is the beginning of T, which needs the exchange too.
  if (kind == ActionKind::kVocabularyGrads && barriers_ == 2)
    for (const std::size_t step : deferred_) steps.push_back({step});
  for (const std::size_t step : steps_of(mesh_.part(), stage, kind, barriers_))
    if (std::ranges::find(deferred_, step) == deferred_.end()) steps.push_back({step});
  return steps;
}

std::vector<ActionStep> ActionSteps::deferred() const {
  std::vector<ActionStep> steps;
  for (const std::size_t step : deferred_) steps.push_back({step});
  return steps;
}

const std::set<LocalId>& ActionSteps::dropped(StageId stage) const {
  static const std::set<LocalId> kNone;
  const auto again = recomputations_.find(stage);
  return again != recomputations_.end() ? again->second.what.dropped : kNone;
}

bool ActionSteps::is_recomputed(std::size_t step) const {
  const auto again = recomputations_.find(mesh_.part().steps[step].stage);
  return again != recomputations_.end() && again->second.what.steps.contains(step);
}

}  // namespace weft::mesh
