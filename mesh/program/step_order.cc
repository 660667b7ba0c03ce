#include "mesh/program/step_order.h"

#include <algorithm>
#include <set>
#include <variant>

#include "core/device/emulated_device.h"
#include "core/ops/op_definition.h"
#include "mesh/program/lanes.h"
#include "mesh/program/recomputation.h"

namespace weft::mesh {
namespace {

void sort(std::vector<std::size_t>& steps, const MeshPartition& part) {
  std::ranges::stable_sort(steps, {}, [&](std::size_t i) { return part.steps[i].order; });
}

}  // namespace

std::vector<std::size_t> steps_of(const MeshPartition& part, StageId stage, ActionKind kind,
                                  int vocabulary_barriers) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    if (part.steps[i].stage == stage && runs_pass(kind, part.steps[i].pass, vocabulary_barriers))
      steps.push_back(i);
  }
  sort(steps, part);
  return steps;
}

std::vector<std::size_t> deferred_score_steps(const MeshPartition& part, StageId output,
                                              int vocabulary_barriers) {
  std::vector<std::size_t> rest;
  std::set<LocalId> late;
  for (const std::size_t i :
       steps_of(part, output, ActionKind::kVocabularyScores, vocabulary_barriers)) {
    const Step& step = part.steps[i];
    const bool waits =
        std::ranges::any_of(inputs_of(step), [&](LocalId input) { return late.contains(input); });
    const auto* move = std::get_if<MoveStep>(&step.what);
    const bool exchanges = move != nullptr && move->move.kind != MoveKind::kSlice;
    if (waits) rest.push_back(i);
    if (!waits && !exchanges) continue;
    for (const LocalId output_of_step : outputs_of(step)) late.insert(output_of_step);
  }
  return rest;
}

double nominal_seconds(const Graph& graph, const Node& node) {
  constexpr EmulatedDeviceOptions kFastDevice{1e14};
  return emulated_seconds(kFastDevice, node.op, input_types(graph, node));
}

std::vector<std::size_t> recompute_steps(const MeshPartition& part, StageId stage) {
  const RecomputedSteps what = recomputed_steps(part, stage);
  std::vector<std::size_t> steps(what.steps.begin(), what.steps.end());
  sort(steps, part);
  return steps;
}

}  // namespace weft::mesh
