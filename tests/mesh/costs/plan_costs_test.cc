#include "mesh/costs/plan_costs.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/mesh/costs/emulated_models.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

using mesh::EdgeCosts;
using mesh::ScheduleCosts;
using mesh::StageCosts;

const std::vector<BlockSeconds> kFourBlocks{{1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}};

ScheduleCosts costs_of(const mesh::ParallelConfig& layout, const mesh::ModelGraphs& model) {
  return mesh::plan_costs(emulated_plan(layout, model), mesh::cost_model_seconds(0));
}

TEST(PlanCosts, StagesTakeWhatTheirStepsTake) {
  const ScheduleCosts costs =
      costs_of(emulated_layout({1, 1}, {{0, 2}, {1, 2}}, "1f1b", 2), emulated_model(kFourBlocks));
  ASSERT_EQ(costs.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(costs.stages[0].forward, 1 + 2);
  EXPECT_DOUBLE_EQ(costs.stages[0].input_grad, 2 + 3);
  EXPECT_DOUBLE_EQ(costs.stages[0].weight_grad, 3 + 4);
  EXPECT_DOUBLE_EQ(costs.stages[1].forward, 3 + 4);
  EXPECT_DOUBLE_EQ(costs.stages[1].input_grad, 4 + 5);
  EXPECT_DOUBLE_EQ(costs.stages[1].weight_grad, 5 + 6);
  EXPECT_FALSE(costs.stages[0].recomputes);
  EXPECT_DOUBLE_EQ(costs.stages[0].reduce_grad, 0);
  EXPECT_EQ(costs.nic_of_actor, (std::vector<int>{0, 1}));
  EXPECT_GT(costs.exchange, 0);
}

TEST(PlanCosts, AnEdgeTakesWhatWasPlannedAndAGradientLeavesBeforeTheLastWeights) {
  const mesh::TrainingPlan plan = emulated_plan(
      emulated_layout({1, 1}, {{0, 2}, {1, 2}}, "1f1b", 2), emulated_model(kFourBlocks));
  const ScheduleCosts costs = mesh::plan_costs(plan, mesh::cost_model_seconds(0));
  ASSERT_EQ(costs.edges.size(), 1u);
  const EdgeCosts& edge = costs.edges[0];
  EXPECT_EQ(edge.edge, (mesh::StageEdge{0, 1, kRows * kWidth * 4}));
  // 80 bytes at 1000 bytes per second.
  EXPECT_NEAR(edge.forward, 0.08, 0.001);
  EXPECT_DOUBLE_EQ(edge.forward, plan.train.edges[0].plan.predicted_seconds);
  EXPECT_DOUBLE_EQ(edge.forward_timing.produced_at, 1);
  EXPECT_DOUBLE_EQ(edge.forward_timing.needed_at, 0);
  EXPECT_DOUBLE_EQ(edge.forward_timing.send_share, 0.5) << "one of two streams that a device has";
  // A B of stage 1 runs I of block 3, W of block 3 (6 of 11 seconds) and I of block 2. Then the
  // gradient can leave.
  EXPECT_DOUBLE_EQ(edge.backward_timing.produced_at, 1);
  EXPECT_DOUBLE_EQ(edge.backward_timing.produced_at_weights, 6.0 / 11);
  EXPECT_DOUBLE_EQ(edge.backward_timing.needed_at, 0);
  EXPECT_DOUBLE_EQ(edge.backward_timing.needed_at_weights, 0);
  EXPECT_FALSE(edge.backward_timing.for_weights_only);
}

TEST(PlanCosts, AnEdgeThatNamesItsPlacesHasAShareOfThose) {
  mesh::TrainingPlan plan = emulated_plan(emulated_layout({1, 1}, {{0, 2}, {1, 2}}, "1f1b", 2),
                                          emulated_model(kFourBlocks));
  const auto share_with = [&](std::uint32_t places) {
    plan.train.edges[0].plan.egress_slots.assign(plan.topology.num_devices(), places);
    return mesh::plan_costs(plan, mesh::cost_model_seconds(0))
        .edges.at(0)
        .forward_timing.send_share;
  };
  EXPECT_DOUBLE_EQ(share_with(4), 0.25);
  EXPECT_DOUBLE_EQ(share_with(1), 1);
}

TEST(PlanCosts, ASkipLeavesAsSoonAsItExistsAndIsNeededWhereItIsUsed) {
  // Block 0 of stage 0 makes a skip tensor for block 3 of stage 1, which adds half a second.
  const ScheduleCosts costs = costs_of(emulated_layout({1, 1}, {{0, 2}, {1, 2}}, "1f1b", 2),
                                       emulated_model(kFourBlocks, {{0, 3, 2, 0.5}}));
  ASSERT_EQ(costs.edges.size(), 2u);
  EXPECT_DOUBLE_EQ(costs.stages[0].forward, 3.5);
  const bool first = costs.edges[0].edge.bytes == kRows * 2 * 4;
  const EdgeCosts& skip = costs.edges[first ? 0 : 1];
  const EdgeCosts& hidden = costs.edges[first ? 1 : 0];
  EXPECT_EQ(hidden.edge.bytes, static_cast<std::uint64_t>(kRows * kWidth * 4));
  EXPECT_DOUBLE_EQ(skip.forward_timing.produced_at, 1.5 / 3.5);
  EXPECT_DOUBLE_EQ(skip.forward_timing.needed_at, 3.0 / 7);  // block 2 needs no skip
  EXPECT_DOUBLE_EQ(hidden.forward_timing.produced_at, 1);
  EXPECT_DOUBLE_EQ(hidden.forward_timing.needed_at, 0);
  // The skip's gradient is made by the first step of the backward. Block 0 uses it after block 1's
  // backward.
  EXPECT_DOUBLE_EQ(skip.backward_timing.produced_at, 5.0 / 9);
  EXPECT_DOUBLE_EQ(skip.backward_timing.produced_at_weights, 0);
  EXPECT_DOUBLE_EQ(skip.backward_timing.needed_at, 3.0 / 5);
  EXPECT_DOUBLE_EQ(skip.backward_timing.needed_at_weights, 4.0 / 7);
  EXPECT_DOUBLE_EQ(hidden.backward_timing.produced_at_weights, 6.0 / 11);
}

TEST(PlanCosts, AStageWithoutInputGradientNeedsItsGradientForTheWeightsAlone) {
  const ScheduleCosts costs = costs_of(emulated_layout({1, 1}, {{0, 1}, {1, 3}}, "1f1b", 2),
                                       emulated_model(kFourBlocks, {}, FirstInput::kData));
  ASSERT_EQ(costs.edges.size(), 1u);
  EXPECT_DOUBLE_EQ(costs.stages[0].input_grad, 0);
  EXPECT_DOUBLE_EQ(costs.stages[0].weight_grad, 3);
  EXPECT_TRUE(costs.edges[0].backward_timing.for_weights_only);
}

TEST(PlanCosts, MemoryIsWhatTheBackwardReads) {
  mesh::ParallelConfig layout = emulated_layout({2, 1}, {{0, 2}, {1, 2}}, "1f1b", 2);
  layout.stages[0].recompute = true;
  const ScheduleCosts costs = costs_of(layout, emulated_model(kFourBlocks));
  // A device has half of the rows. Per row, F holds token ids, two saved tensors and both blocks'
  // inputs. W also needs the gradients of all three tensors.
  const double row = static_cast<double>(kRows) / 2 * 4;
  const StageCosts& stage = costs.stages[0];
  EXPECT_DOUBLE_EQ(stage.activations, row * (1 + 2 * kSaved + 2 * kWidth));
  EXPECT_DOUBLE_EQ(stage.for_weight_grad, row * (1 + 2 * kSaved + 2 * kWidth + 3 * kWidth));
  EXPECT_DOUBLE_EQ(stage.retained_for_recompute, row * 1);
  EXPECT_TRUE(stage.recomputes);
  EXPECT_DOUBLE_EQ(stage.recompute, 3);
  // The two devices of stage 0 all-reduce their gradients.
  EXPECT_GT(stage.reduce_grad, 0);
  EXPECT_EQ(stage.reduced_layers, 2);
  EXPECT_DOUBLE_EQ(costs.stages[1].reduce_grad, 0);
  EXPECT_FALSE(costs.stages[1].recomputes);
}

TEST(PlanCosts, StagesOfOneMeshAreJoinedWithoutATransfer) {
  const ScheduleCosts costs =
      costs_of(emulated_layout({1, 1}, {{0, 1}, {1, 1}, {1, 1}, {0, 1}}, "zb-v", 4),
               emulated_model(kFourBlocks));
  ASSERT_EQ(costs.edges.size(), 3u);
  std::vector<double> middle;
  for (const EdgeCosts& edge : costs.edges) {
    if (edge.edge.from == 1) middle = {edge.forward, edge.backward};
    else EXPECT_GT(edge.forward, 0);
  }
  EXPECT_EQ(middle, (std::vector<double>{0, 0}));
}

TEST(PlanCosts, MeasuredTimesReplaceThoseOfTheModel) {
  const mesh::TrainingPlan plan = emulated_plan(
      emulated_layout({1, 1}, {{0, 2}, {1, 2}}, "1f1b", 2), emulated_model(kFourBlocks));
  ScheduleCosts costs = mesh::plan_costs(plan, mesh::cost_model_seconds(0));
  const mesh::MeasuredStageTimes measured[] = {{30, 50, 70}, {1, 1, 1}};
  mesh::scale_to_measured(costs, plan, measured);
  EXPECT_DOUBLE_EQ(costs.stages[0].forward, 30);
  EXPECT_DOUBLE_EQ(costs.stages[0].recompute, 30);
  EXPECT_DOUBLE_EQ(costs.stages[1].weight_grad, 1);
  EXPECT_THAT([&] { mesh::scale_to_measured(costs, plan, std::span(measured).first(1)); },
              throws_error(ErrorCode::kInvalidArgument, "1 stages were measured, but there are 2"));
  // The measured time of I includes the recomputation (R) that precedes it.
  costs.stages[0].recomputes = true;
  mesh::scale_to_measured(costs, plan, measured);
  EXPECT_DOUBLE_EQ(costs.stages[0].input_grad, 50 - 30);
}

}  // namespace
}  // namespace weft::test
