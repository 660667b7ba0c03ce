#include "mesh/program/recomputation.h"

#include <map>
#include <vector>

namespace weft::mesh {

RecomputedSteps recomputed_steps(const MeshPartition& part, int stage) {
  // By the stage's forward; what others use stays, so only the rest is listed.
  std::map<LocalId, std::size_t> made;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    if (part.steps[i].stage != stage || part.steps[i].pass != Pass::kForward) continue;
    for (const LocalId output : outputs_of(part.steps[i])) made[output] = i;
  }
  for (const Step& step : part.steps) {
    if (step.stage == stage) continue;
    for (const LocalId input : inputs_of(step)) made.erase(input);
  }
  RecomputedSteps result;
  std::vector<LocalId> needed;
  for (const auto& [id, step] : made) result.dropped.insert(id);
  for (const Step& step : part.steps) {
    if (step.stage != stage || step.pass == Pass::kForward) continue;
    for (const LocalId input : inputs_of(step)) needed.push_back(input);
  }
  while (!needed.empty()) {
    const auto found = made.find(needed.back());
    needed.pop_back();
    if (found == made.end() || !result.steps.insert(found->second).second) continue;
    for (const LocalId input : inputs_of(part.steps[found->second])) needed.push_back(input);
  }
  return result;
}

}  // namespace weft::mesh
