#include "mesh/program/recomputation.h"

#include <map>
#include <vector>

namespace weft::mesh {
namespace {

/// Returns the outputs of the stage's forward that no other stage uses, with the step that computes
/// each.
std::map<LocalId, std::size_t> own_activations(const MeshPartition& part, StageId stage) {
  std::map<LocalId, std::size_t> made_by;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    if (part.steps[i].stage != stage || part.steps[i].pass != Pass::kForward) continue;
    for (const LocalId output : outputs_of(part.steps[i])) made_by[output] = i;
  }
  for (const Step& step : part.steps) {
    if (step.stage == stage) continue;
    for (const LocalId input : inputs_of(step)) made_by.erase(input);
  }
  return made_by;
}

std::vector<LocalId> backward_inputs(const MeshPartition& part, StageId stage) {
  std::vector<LocalId> inputs;
  for (const Step& step : part.steps) {
    if (step.stage != stage || step.pass == Pass::kForward) continue;
    for (const LocalId input : inputs_of(step)) inputs.push_back(input);
  }
  return inputs;
}

}  // namespace

RecomputedSteps recomputed_steps(const MeshPartition& part, StageId stage) {
  const std::map<LocalId, std::size_t> made_by = own_activations(part, stage);
  RecomputedSteps result;
  for (const auto& [id, step] : made_by) result.dropped.insert(id);
  std::vector<LocalId> needed = backward_inputs(part, stage);
  while (!needed.empty()) {
    const auto found = made_by.find(needed.back());
    needed.pop_back();
    if (found == made_by.end() || !result.steps.insert(found->second).second) continue;
    for (const LocalId input : inputs_of(part.steps[found->second])) needed.push_back(input);
  }
  return result;
}

}  // namespace weft::mesh
