#include "mesh/program/step_order.h"

#include <algorithm>

#include "mesh/program/lanes.h"
#include "mesh/program/recomputation.h"

namespace weft::mesh {
namespace {

void sort(std::vector<std::size_t>& steps, const MeshPartition& part) {
  std::ranges::stable_sort(steps, {}, [&](std::size_t i) { return part.steps[i].order; });
}

}  // namespace

std::vector<std::size_t> steps_of(const MeshPartition& part, StageId stage, ActionKind kind) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    if (part.steps[i].stage == stage && runs(kind, part.steps[i].pass)) steps.push_back(i);
  }
  sort(steps, part);
  return steps;
}

std::vector<std::size_t> steps_again(const MeshPartition& part, StageId stage) {
  const RecomputedSteps what = recomputed_steps(part, stage);
  std::vector<std::size_t> steps(what.steps.begin(), what.steps.end());
  sort(steps, part);
  return steps;
}

}  // namespace weft::mesh
