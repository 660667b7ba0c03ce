#include "mesh/program/internal/gradient_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace weft::mesh {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;
using transfer::DeviceId;

/// A mesh of 2 x 2 devices with one parameter of 4 x 8, whose gradient each device computes as a
/// term of a sum over axis `data`.
class GradientReductionTest : public testing::Test {
 protected:
  GradientReductionTest() {
    DeviceMesh mesh("front", {{"data", 2}, {"tensor", 2}},
                    {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)});
    partition_.meshes.push_back(mesh);
    partition_.mesh_of_stage.push_back(MeshId(0));
    partition_.per_mesh.resize(1);
    topology_ = transfer::Topology{std::vector<transfer::HostId>(4, transfer::HostId(0))};
  }
  /// Adds a parameter in spec `spec`; its gradient is in spec `gradient`.
  void add_parameter(const Spec& spec, const Spec& gradient) {
    const TensorType type{DType::kF32, {4, 8}};
    Graph& graph = partition_.graph;
    const ValueId weights = graph.add_parameter("w", type, {}, {"", ""}, true);
    const ValueId value = graph.add_input("gradient", type, {"", ""});
    MeshPartition& part = partition_.per_mesh[MeshId(0)];
    const LocalId parameter =
        part.locals.push_back({weights, spec, LocalOrigin::kParameter, false});
    const LocalId term = part.locals.push_back({value, gradient, LocalOrigin::kComputed, false});
    part.steps.push_back({ComputeStep{NodeId(0), {}, {term}, {}, {}}, StageId(0)});
    part.parameters.push_back({0, parameter, true, {{0, term}}});
  }

  Partition partition_;
  transfer::Topology topology_;
  TransferNumbers numbers_;
  std::map<DeviceId, Emitter> devices_;
};

TEST_F(GradientReductionTest, APartialSumIsAllReducedInPlace) {
  add_parameter({{{}, {1}}, {}}, {{{}, {1}}, {0}});
  const MeshView view(partition_, MeshId(0));
  const MeshEmitters emitters(view.mesh(), {0, 0, 0, 0}, "train", topology_, numbers_, devices_);
  const GradientSums sums(view, emitters, {});
  GradientReduction reduction(view, emitters, sums, topology_, Lowering::kLanes);
  reduction.finish();
  EXPECT_FALSE(reduction.is_scattered(0));
  EXPECT_EQ(reduction.whole(0), sums.sums()[0].buffers);
  for (const int rank : emitters.all_ranks()) {
    const Program program = emitters[rank].finish();
    ASSERT_EQ(program.transfers.size(), 1u);
    EXPECT_EQ(program.transfers[0].name, "all-reduce gradients/data");
  }
}

TEST_F(GradientReductionTest, ASumOfASplitParameterIsReduceScattered) {
  add_parameter({{{0}, {1}}, {}}, {{{}, {1}}, {0}});
  const MeshView view(partition_, MeshId(0));
  const MeshEmitters emitters(view.mesh(), {0, 0, 0, 0}, "train", topology_, numbers_, devices_);
  // The devices number their buffers differently.
  emitters[1].add_arena_buffer({DType::kF32, {1}});
  const GradientSums sums(view, emitters, {});
  GradientReduction reduction(view, emitters, sums, topology_, Lowering::kLanes);
  reduction.finish();
  ASSERT_TRUE(reduction.is_scattered(0));
  for (const int rank : emitters.all_ranks()) {
    const Program program = emitters[rank].finish();
    ASSERT_EQ(program.transfers.size(), 1u);
    EXPECT_THAT(program.transfers[0].name, StartsWith("reduce-scatter gradients/data by data"));
    const Buffer& part = program.buffers[reduction.whole(0)[rank]];
    EXPECT_EQ(part.type.shape, (Shape{2, 4})) << "rank " << rank;
    EXPECT_EQ(program.persistents[part.persistent].name, program.transfers[0].name);
  }
}

// The parameter is split over `data`; its gradient is partial over `data` and `tensor`.
TEST_F(GradientReductionTest, PartsOfAReduceScatterAreAllReducedOverTheOtherAxes) {
  add_parameter({{{0}, {}}, {}}, {{{}, {}}, {0, 1}});
  const MeshView view(partition_, MeshId(0));
  const MeshEmitters emitters(view.mesh(), {0, 0, 0, 0}, "train", topology_, numbers_, devices_);
  const GradientSums sums(view, emitters, {});
  GradientReduction reduction(view, emitters, sums, topology_, Lowering::kLanes);
  reduction.finish();
  for (const int rank : emitters.all_ranks()) {
    const Program program = emitters[rank].finish();
    ASSERT_EQ(program.transfers.size(), 2u);
    EXPECT_THAT(program.transfers[0].name, StartsWith("reduce-scatter gradients"));
    EXPECT_THAT(program.transfers[1].name, StartsWith("all-reduce reduce-scatter gradients"));
    EXPECT_EQ(program.buffers[reduction.whole(0)[rank]].type.shape, (Shape{2, 8}));
  }
}

TEST_F(GradientReductionTest, AnEarlyReductionLeavesNothingToDoAtTheEnd) {
  add_parameter({{{}, {1}}, {}}, {{{}, {1}}, {0}});
  const MeshView view(partition_, MeshId(0));
  const MeshEmitters emitters(view.mesh(), {0, 0, 0, 0}, "train", topology_, numbers_, devices_);
  const GradientSums sums(view, emitters, {});
  GradientReduction reduction(view, emitters, sums, topology_, Lowering::kLanes);
  reduction.start({StageId(0)});
  reduction.finish();
  EXPECT_EQ(numbers_.count(), 2) << "one all-reduce for each index of the axis 'tensor'";
}

}  // namespace
}  // namespace weft::mesh
