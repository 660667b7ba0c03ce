// Tests the communication of the output layer's block on a mesh that spans all devices of a
// pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "mesh/layouts/rules.h"
#include "mesh/layouts/separate_vocabulary.h"
#include "mesh/layouts/split_graph.h"
#include "mesh/partition/partition.h"
#include "mesh/plan/spanning_mesh.h"

namespace weft::test {
namespace {

using mesh::MeshId;
using mesh::StageId;
using mesh::VocabularyMode;
using ::testing::ElementsAre;

struct OutputBlock {
  mesh::Partition partition;
  StageId stage;

  const mesh::MeshPartition& part() const { return partition.per_mesh[MeshId(2)]; }
  const Value& value(mesh::LocalId id) const {
    return partition.graph.value(part().locals[id].value);
  }
};

/// Makes a GPT of two stages on devices 0 and 1. Its vocabulary is split over `devices` devices.
OutputBlock make_block(int devices, VocabularyMode mode, bool tied) {
  const apps::GptGraph model = apps::gpt_graph({2, 16, 2, 6, 4, 50, tied}, 0.1);
  const mesh::SeparatedVocabulary separated =
      mesh::separate_vocabulary(differentiate(model.graph, model.loss));
  std::vector<transfer::DeviceId> all;
  for (int i = 0; i < devices; ++i) all.emplace_back(i);
  const mesh::DeviceMesh spanning("vocab", {{mesh::kVocabularyAxis, devices}}, all);
  mesh::PartitionRequest request;
  request.meshes.push_back({"a", {{"data", 1}}, {all[0]}});
  request.meshes.push_back({"b", {{"data", 1}}, {all[1]}});
  request.meshes.push_back(spanning);
  for (const int m : {0, 1, 2, 2}) request.cut.mesh_of_stage.push_back(MeshId(m));
  for (const int stage : {3, 0, 1, 2}) request.cut.stage_of_block.emplace_back(stage);
  request.cut.vocabulary = mesh::VocabularyStages{StageId(2), StageId(3)};
  std::vector<mesh::FeatureSplits> by_block(4);
  by_block[0] = by_block[3] = mesh::spanning_splits(spanning, mode);
  TrainingGraph split = mesh::split_graph(separated.graph, by_block);
  request.graph = std::move(split.graph);
  request.loss = split.loss;
  request.gradients = std::move(split.gradients);
  const auto stages = mesh::place_nodes(request.graph, request.cut);
  for (const MeshId id : request.meshes.ids())
    request.strategies.push_back(mesh::rules_strategy(
        {request.graph, request.meshes[id], mesh::nodes_on(id, stages, request.cut)},
        mesh::spanning_rules()));
  return {mesh::partition(request), StageId(2)};
}

/// Ops and moves of the output block. An op reads "F linear", with "/" if its result is split and
/// "+" if it is partial. The moves exclude the input gradient's.
struct Steps {
  std::vector<std::string> ops, moves;
};
Steps steps_of(const OutputBlock& block) {
  Steps result;
  for (const mesh::Step& step : block.part().steps) {
    if (step.stage != block.stage) continue;
    const std::string pass(to_string(step.pass));
    if (const auto* move = std::get_if<mesh::MoveStep>(&step.what)) {
      const Value& value = block.value(move->input);
      const bool leaves = value.gradient_of && step.pass == Pass::kInputGrad;
      if (!leaves)
        result.moves.push_back(pass + " " + std::string(to_string(move->move.kind)) + " " +
                               value.name);
      continue;
    }
    const auto& compute = std::get<mesh::ComputeStep>(step.what);
    const mesh::Spec& spec = block.part().locals[compute.outputs[0]].spec;
    const bool is_split =
        std::ranges::any_of(spec.dims, [](const auto& axes) { return !axes.empty(); });
    result.ops.push_back(pass + " " +
                         std::string(to_string(block.partition.graph.node(compute.node).op.kind)) +
                         (is_split ? "/" : "") + (spec.is_partial() ? "+" : ""));
  }
  return result;
}

class OutputBlockOn : public testing::TestWithParam<int> {};

TEST_P(OutputBlockOn, Vocabulary1GathersTheMomentsAndLeavesTheGradientInTerms) {
  const Steps steps = steps_of(make_block(GetParam(), VocabularyMode::kVocab1, false));
  EXPECT_THAT(steps.ops,
              ElementsAre("F linear/", "F cross_entropy_moments/", "F cross_entropy_statistics",
                          "F cross_entropy_of_statistics", "I cross_entropy_apply_grad/",
                          "I linear_input_grad+", "W linear_weight_grad/"));
  EXPECT_THAT(steps.moves, ElementsAre("F all-gather cross_entropy.moments"));
}

TEST_P(OutputBlockOn, Vocabulary2GathersTheMomentsAloneAndCombinesInBackward) {
  const Steps steps = steps_of(make_block(GetParam(), VocabularyMode::kVocab2, false));
  EXPECT_THAT(
      steps.ops,
      ElementsAre("F linear/", "F cross_entropy_moments/", "F cross_entropy_numerators/",
                  "F linear_slice_input_grad/", "F target_rows/", "F cross_entropy_statistics",
                  "F cross_entropy_of_statistics", "I cross_entropy_combined_input_grad+",
                  "W cross_entropy_apply_grad/", "W linear_weight_grad/"));
  EXPECT_THAT(steps.moves, ElementsAre("F all-gather cross_entropy.moments"));
}

TEST_P(OutputBlockOn, ATiedTableIsSplitAlike) {
  for (const VocabularyMode mode : {VocabularyMode::kVocab1, VocabularyMode::kVocab2}) {
    const Steps steps = steps_of(make_block(GetParam(), mode, true));
    EXPECT_EQ(steps.ops.front(), "F linear_input_grad/");
    EXPECT_EQ(steps.ops.back(), "W linear_weight_grad/");
    EXPECT_THAT(steps.ops, testing::Contains(mode == VocabularyMode::kVocab1
                                                 ? "I linear+"
                                                 : "I cross_entropy_combined_input_grad+"));
    EXPECT_THAT(steps.moves, ElementsAre("F all-gather cross_entropy.moments"));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OutputBlockOn, testing::Values(3, 8));

}  // namespace
}  // namespace weft::test
