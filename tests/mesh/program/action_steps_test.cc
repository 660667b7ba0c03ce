#include "mesh/program/internal/action_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const StageId kStage(0);
const LocalId kInput(0), kHidden(1), kOutput(2), kGradient(3);

Step step(Pass pass, std::vector<LocalId> inputs, LocalId output) {
  return {ComputeStep{NodeId(0), std::move(inputs), {output}, {}, {}}, kStage, pass};
}

/// Makes a stage on one device: steps 0 and 1 are its forward, step 2 is a backward that reads the
/// hidden value.
Partition partition() {
  Partition result;
  result.meshes.push_back(DeviceMesh("front", {{"data", 1}}, {transfer::DeviceId(0)}));
  result.mesh_of_stage.push_back(MeshId(0));
  MeshPartition part;
  part.locals.resize(4);
  part.steps = {step(Pass::kForward, {kInput}, kHidden), step(Pass::kForward, {kHidden}, kOutput),
                step(Pass::kInputGrad, {kHidden}, kGradient)};
  result.per_mesh.push_back(part);
  return result;
}

Schedule schedule(const std::vector<ActionKind>& kinds) {
  Schedule result;
  result.actors.emplace_back();
  for (const ActionKind kind : kinds) result.actors[0].push_back({0, kind, 0});
  return result;
}

ActionStep first(std::size_t step) { return {step}; }
ActionStep again(std::size_t step) { return {step, ActionStep::Round::kRecompute}; }

TEST(ActionSteps, AnActionRunsTheStepsOfItsPass) {
  const Partition parts = partition();
  const ActionSteps steps(MeshView(parts, MeshId(0)),
                          schedule({ActionKind::kForward, ActionKind::kBackward}), 0, {});
  EXPECT_THAT(steps.of(kStage, ActionKind::kForward), ElementsAre(first(0), first(1)));
  EXPECT_THAT(steps.of(kStage, ActionKind::kBackward), ElementsAre(first(2)));
  EXPECT_THAT(steps.dropped(kStage), IsEmpty());
  EXPECT_THAT(steps.deferred(), IsEmpty());
}

TEST(ActionSteps, ARecomputingStageRerunsItsForwardAtTheStartOfTheBackward) {
  const Partition parts = partition();
  const ActionSteps steps(MeshView(parts, MeshId(0)),
                          schedule({ActionKind::kForward, ActionKind::kBackward}), 0, {true});
  EXPECT_THAT(steps.of(kStage, ActionKind::kForward), ElementsAre(first(0), first(1)));
  EXPECT_THAT(steps.of(kStage, ActionKind::kBackward), ElementsAre(again(0), first(2)));
  EXPECT_THAT(steps.dropped(kStage), ElementsAre(kHidden, kOutput));
  EXPECT_TRUE(steps.is_recomputed(0));
  EXPECT_FALSE(steps.is_recomputed(1)) << "no backward step reads the output";
}

TEST(ActionSteps, ARecomputationOfTheScheduleRunsInItsOwnAction) {
  const Partition parts = partition();
  const ActionSteps steps(
      MeshView(parts, MeshId(0)),
      schedule({ActionKind::kForward, ActionKind::kRecompute, ActionKind::kBackward}), 0, {});
  EXPECT_THAT(steps.of(kStage, ActionKind::kRecompute), ElementsAre(again(0)));
  EXPECT_THAT(steps.of(kStage, ActionKind::kBackward), ElementsAre(first(2)));
}

}  // namespace
}  // namespace weft::mesh
