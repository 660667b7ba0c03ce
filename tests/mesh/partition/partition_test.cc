#include "mesh/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "mesh/layouts/rules.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::HasSubstr;

/// Builds one transformer block: attention and MLP with residuals, then a loss.
TrainingGraph small_model(std::int64_t batch = 4, std::int64_t width = 8) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {batch, 3}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {batch, 3}}, {"batch", "sequence"});
  ValueId x = b.embedding(b.parameter("table", {5, width}, normal(0.02), {"vocab", "embed"}), ids);
  b.set_block(1);
  const ValueId gamma = b.parameter("gamma", {width}, ones(), {"embed"}, false);
  const ValueId beta = b.parameter("beta", {width}, zeros(), {"embed"}, false);
  ValueId h = b.layer_norm(x, gamma, beta);
  h = b.linear(h, b.parameter("qkv", {width, 3, width}, normal(0.02), {"embed", "", "heads"}),
               b.parameter("qkv_bias", {3, width}, zeros(), {"", "heads"}, false));
  h = b.attention(h, 4);
  h = b.linear(h, b.parameter("proj", {width, width}, normal(0.02), {"heads", "embed"}),
               b.parameter("proj_bias", {width}, zeros(), {"embed"}, false));
  x = b.add(x, h);
  b.set_block(2);
  const ValueId logits =
      b.linear(x, b.parameter("head", {width, 5}, normal(0.02), {"embed", "vocab"}));
  const ValueId loss = b.cross_entropy(logits, targets, 1.0 / 12);
  return differentiate(b.graph(), loss);
}

DeviceMesh make_mesh(const std::string& name, int data, int tensor, unsigned first) {
  std::vector<transfer::DeviceId> devices;
  for (int i = 0; i < data * tensor; ++i) devices.emplace_back(first + i);
  return DeviceMesh(name, {{"data", data}, {"tensor", tensor}}, devices);
}

PartitionRequest request(const TrainingGraph& model, std::vector<DeviceMesh> meshes,
                         const std::vector<int>& stage_of_block) {
  IndexedVector<MeshId, DeviceMesh> indexed(std::move(meshes));
  IndexedVector<StageId, MeshId> mesh_of_stage;
  for (const MeshId mesh : indexed.ids()) mesh_of_stage.push_back(mesh);
  PartitionRequest result{model.graph,
                          model.loss,
                          model.gradients,
                          std::move(indexed),
                          {mesh_of_stage, {stage_of_block.begin(), stage_of_block.end()}},
                          {}};
  const ShardingRules rules{{{"batch", {"data"}}, {"heads", {"tensor"}}, {"mlp", {"tensor"}}}};
  const auto stages = place_nodes(result.graph, result.cut);
  for (const MeshId mesh : result.meshes.ids()) {
    result.strategies.push_back(rules_strategy(
        {result.graph, result.meshes[mesh], nodes_on(mesh, stages, result.cut)}, rules));
  }
  return result;
}

std::map<MoveKind, int> moves(const MeshPartition& part) {
  std::map<MoveKind, int> count;
  for (const Step& step : part.steps)
    if (const auto* move = std::get_if<MoveStep>(&step.what)) ++count[move->move.kind];
  return count;
}
using Moves = std::map<MoveKind, int>;

TEST(Partition, OneDeviceNeedsNoCommunication) {
  const Partition result =
      partition(request(small_model(), {make_mesh("all", 1, 1, 0)}, {0, 0, 0}));
  EXPECT_EQ(moves(result.per_mesh[MeshId(0)]), Moves());
  EXPECT_TRUE(result.edges.empty());
}

// Megatron's pattern: one all-reduce after the row-parallel layer in the forward, and one before
// the column-parallel layer's input in the backward.
TEST(Partition, TensorParallelAttentionTakesOneAllReduceEachWay) {
  const Partition result =
      partition(request(small_model(), {make_mesh("all", 1, 2, 0)}, {0, 0, 0}));
  SCOPED_TRACE(to_string(result));
  EXPECT_EQ(moves(result.per_mesh[MeshId(0)]), (Moves{{MoveKind::kAllReduce, 2}}));
}

TEST(Partition, DataParallelLeavesPartialGradientsAndLoss) {
  const Partition result =
      partition(request(small_model(), {make_mesh("all", 2, 1, 0)}, {0, 0, 0}));
  SCOPED_TRACE(to_string(result));
  EXPECT_EQ(moves(result.per_mesh[MeshId(0)]), Moves());
  EXPECT_EQ(result.per_mesh[MeshId(0)].locals[result.loss_local].spec.partial, std::vector<int>{0});
  for (const LocalParameter& parameter : result.per_mesh[MeshId(0)].parameters) {
    ASSERT_EQ(parameter.terms.size(), 1u);
    EXPECT_EQ(result.per_mesh[MeshId(0)].locals[parameter.terms[0].gradient].spec.partial,
              std::vector<int>{0});
  }
}

/// Returns the passes of the steps that run ops of this kind.
std::vector<Pass> passes(const Partition& partition, OpKind kind) {
  std::vector<Pass> passes;
  for (const MeshPartition& part : partition.per_mesh) {
    for (const Step& step : part.steps) {
      const auto* compute = std::get_if<ComputeStep>(&step.what);
      if (compute != nullptr && partition.graph.node(compute->node).op.kind == kind)
        passes.push_back(step.pass);
    }
  }
  return passes;
}

TEST(Partition, TheLossIsComputedWithItsGradient) {
  const Partition trains = partition(
      request(small_model(), {make_mesh("front", 1, 1, 0), make_mesh("back", 2, 1, 1)}, {0, 0, 1}));
  SCOPED_TRACE(to_string(trains));
  EXPECT_EQ(passes(trains, OpKind::kCrossEntropy), std::vector{Pass::kInputGrad});
  const std::vector<Step>& steps = trains.per_mesh[MeshId(1)].steps;
  EXPECT_TRUE(std::ranges::is_sorted(steps, {}, &Step::pass));

  // A graph without gradients has it in the forward.
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {4, 5}}, {"batch", "vocab"});
  const ValueId targets = b.input("targets", {DType::kI32, {4}}, {"batch"});
  const ValueId w = b.parameter("w", {5, 5}, normal(0.02), {"vocab", "vocab"});
  const ValueId loss = b.cross_entropy(b.linear(x, w), targets, 0.25);
  const TrainingGraph forward{b.graph(), loss, {}};
  EXPECT_EQ(
      passes(partition(request(forward, {make_mesh("all", 1, 1, 0)}, {0})), OpKind::kCrossEntropy),
      std::vector{Pass::kForward});
}

TEST(Partition, StagesExchangeActivationsAndTheirGradients) {
  const Partition result = partition(
      request(small_model(), {make_mesh("front", 1, 2, 0), make_mesh("back", 2, 1, 2)}, {0, 0, 1}));
  SCOPED_TRACE(to_string(result));
  ASSERT_EQ(result.edges.size(), 2u);
  EXPECT_EQ(result.edges[0].pass, Pass::kForward);
  EXPECT_EQ(result.edges[1].pass, Pass::kInputGrad);
  EXPECT_EQ(result.edges[1].from_mesh, MeshId(1));
  const LocalValue& received = result.per_mesh[MeshId(1)].locals[result.edges[0].destination];
  EXPECT_EQ(received.spec.dims[0], std::vector<int>{0});
}

// The residual and the norm both make a gradient. Only their sum is sent.
TEST(Partition, GradientsAreAddedBeforeTheyTravel) {
  const Partition result = partition(
      request(small_model(), {make_mesh("front", 1, 1, 0), make_mesh("back", 1, 1, 1)}, {0, 1, 1}));
  SCOPED_TRACE(to_string(result));
  ASSERT_EQ(result.edges.size(), 2u);
  EXPECT_EQ(result.edges[1].pass, Pass::kInputGrad);
}

// The first block's output is used twice by the next block and once over a skip connection. Each
// stage sends one gradient back.
TEST(Partition, EachStageSendsOneGradientOfASkippedValue) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {4, 3}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {4, 3}}, {"batch", "sequence"});
  const ValueId first =
      b.embedding(b.parameter("table", {5, 8}, normal(0.02), {"vocab", "embed"}), ids);
  b.set_block(1);
  ValueId x = b.add(first, b.gelu(first));
  b.set_block(2);
  x = b.add(b.gelu(x), first);
  const ValueId logits = b.linear(x, b.parameter("head", {8, 5}, normal(0.02), {"embed", "vocab"}));
  const TrainingGraph model = differentiate(b.graph(), b.cross_entropy(logits, targets, 1.0 / 12));
  const Partition result = partition(
      request(model, {make_mesh("a", 1, 1, 0), make_mesh("b", 1, 1, 1), make_mesh("c", 1, 1, 2)},
              {0, 1, 2}));
  SCOPED_TRACE(to_string(result));
  EXPECT_EQ(result.edges.size(), 6u);
}

TEST(Partition, ABatchThatDoesNotDivideIsExplained) {
  EXPECT_THAT(
      [&] {
        partition(request(small_model(3), {make_mesh("all", 2, 1, 0)}, {0, 0, 0}));
      },
      test::throws_error(ErrorCode::kInvalidConfig,
                         "split evenly 2 ways along its axis 'batch' of size 3"));
}

TEST(Partition, HeadsThatDoNotDivideAreExplained) {
  EXPECT_THAT(
      [&] {
        partition(request(small_model(4, 12), {make_mesh("all", 1, 2, 0)}, {0, 0, 0}));
      },
      test::throws_error(ErrorCode::kInvalidConfig,
                         "3 units cannot be split 2 ways over axis 'tensor'"));
}

}  // namespace
}  // namespace weft::mesh
