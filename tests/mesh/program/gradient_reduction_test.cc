#include "mesh/program/internal/gradient_reduction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mesh/program/internal/mesh_buffers.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {
namespace {

using transfer::DeviceId;

/// A mesh of 2 x 2 devices with one parameter. Each device computes its gradient as a
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
  void add_parameter(const Spec& spec, const Spec& gradient, std::int64_t rows = 8) {
    const TensorType type{DType::kF32, {rows, 16}};
    Graph& graph = partition_.graph;
    const ValueId weights = graph.add_parameter("w", type, {}, {"", ""}, true);
    const ValueId data = graph.add_input("x", type, {"", ""});
    const NodeId node =
        graph.add_node({OpKind::kGelu, {}}, {data}, {type}, {"gradient"}, 0, Pass::kWeightGrad);
    const ValueId value = graph.node(node).outputs.front();
    MeshPartition& part = partition_.per_mesh[MeshId(0)];
    const LocalId parameter =
        part.locals.push_back({weights, spec, LocalOrigin::kParameter, false});
    term_ = part.locals.push_back({value, gradient, LocalOrigin::kComputed, false});
    part.steps.push_back({ComputeStep{node, {}, {term_}, {}, {}}, StageId(0)});
    part.parameters.push_back({0, parameter, true, {{0, term_}}});
  }

  /// Emits a step of these microbatches. Returns rank 1's program.
  Program emit(int microbatches, std::set<StageId> held = {},
               Lowering lowering = Lowering::kLanes) {
    const MeshView view(partition_, MeshId(0));
    const MeshEmitters emitters(view.mesh(), {0, 0, 0, 0}, "train", topology_, numbers_, devices_);
    // The devices number their buffers differently.
    emitters[1].add_arena_buffer({DType::kF32, {1}});
    const Schedule schedule = make_schedule("gpipe", 1, microbatches);
    GradientSums sums(view, emitters, {}, schedule, topology_, std::nullopt);
    MeshBuffers buffers(view, emitters);
    GradientReduction reduction(view, emitters, sums, topology_, lowering, std::move(held));
    for (int m = 0; m < microbatches; ++m) {
      for (const int rank : emitters.all_ranks())
        emitters[rank].begin({0, ActionKind::kBackward, m, false});
      if (sums.is_direct(term_)) {
        for (const int rank : emitters.all_ranks())
          sums.write_directly(term_, rank, [&] { return buffers.instance(term_, m, rank); });
      }
      reduction.computed(term_, m);
      reduction.start_complete();
    }
    for (const int rank : emitters.all_ranks())
      emitters[rank].begin({0, ActionKind::kOptimizer, -1, false});
    if (held_starts_) reduction.start(StageId(0));
    reduction.finish();
    is_scattered_ = reduction.is_scattered(0);
    whole_ = reduction.whole(0);
    return emitters[1].finish();
  }

  /// Returns a line per instruction: the action, and what is done.
  static std::string text(const Program& program) {
    std::string text;
    for (const Instruction& instruction : program.instructions) {
      if (const auto* begin = std::get_if<BeginAction>(&instruction))
        text += fmt::format("{}{}: ", text.empty() ? "" : "\n", begin->microbatch);
      if (std::holds_alternative<mesh::Run>(instruction)) text += "copy ";
      if (std::holds_alternative<Start>(instruction)) text += "start ";
      if (std::holds_alternative<Wait>(instruction)) text += "wait ";
      if (const auto* add = std::get_if<Accumulate>(&instruction))
        text += add->first ? "set " : "add ";
    }
    return text;
  }

  Partition partition_;
  LocalId term_;
  transfer::Topology topology_;
  TransferNumbers numbers_;
  std::map<DeviceId, Emitter> devices_;
  bool held_starts_ = false;
  bool is_scattered_ = false;
  std::vector<std::uint32_t> whole_;
};

TEST_F(GradientReductionTest, AKeptSumIsAllReducedInPlaceAfterItsLastTerm) {
  add_parameter({{{}, {1}}, {}}, {{{}, {1}}, {0}});
  const Program program = emit(2);
  EXPECT_FALSE(is_scattered_);
  EXPECT_EQ(text(program), "0: \n1: start \n-1: wait ");
  ASSERT_EQ(program.transfers.size(), 1u);
  EXPECT_EQ(program.transfers[0].name, "all-reduce gradients/data of stage 0, 0");
  const auto& start = std::get<Start>(program.instructions[2]);
  EXPECT_EQ(start.source, start.destination);
  EXPECT_EQ(program.buffers[start.source].type.bytes(), program.buffers[whole_[1]].type.bytes());
}

TEST_F(GradientReductionTest, AKeptSumOfASplitParameterIsReduceScattered) {
  add_parameter({{{0}, {1}}, {}}, {{{}, {1}}, {0}});
  const Program program = emit(2);
  ASSERT_TRUE(is_scattered_);
  EXPECT_EQ(text(program), "0: \n1: start \n-1: wait ") << "the rows of a rank lie together";
  EXPECT_EQ(program.transfers[0].name, "reduce-scatter gradients/data by data of stage 0, 0");
  const Buffer& part = program.buffers[whole_[1]];
  EXPECT_EQ(part.type.shape, (Shape{4, 8}));
  EXPECT_EQ(program.persistents[part.persistent].name, "gradients/data by data, parts");
  EXPECT_EQ(program.persistents.size(), 3u) << "the parameter, the sum, the part";
}

TEST_F(GradientReductionTest, ColumnsAreCopiedInTheOrderOfTheReceivers) {
  add_parameter({{{}, {1, 0}}, {}}, {{{}, {1}}, {0}});
  const Program program = emit(1);
  EXPECT_EQ(text(program), "0: copy start \n-1: wait ");
  EXPECT_EQ(program.buffers[whole_[1]].type.shape, (Shape{8, 4}));
  const auto& joined = std::get<mesh::Run>(program.instructions[1]);
  const auto& start = std::get<Start>(program.instructions[2]);
  EXPECT_EQ(program.ops[joined.op].kind, OpKind::kConcat);
  ASSERT_EQ(joined.inputs.size(), 8u) << "a view of each row, with a part for each receiver";
  EXPECT_EQ(program.buffers[joined.inputs[3]].type.shape, (Shape{2, 4}));
  EXPECT_EQ(program.buffers[joined.inputs[3]].offset - program.buffers[joined.inputs[0]].offset,
            3 * 8 * sizeof(float));
  EXPECT_EQ(program.buffers[joined.outputs[0]].offset, program.buffers[start.source].offset);
}

TEST_F(GradientReductionTest, ManyPiecesAreCopiedReceiverByReceiver) {
  add_parameter({{{}, {1, 0}}, {}}, {{{}, {1}}, {0}}, 32);
  const Program program = emit(1);
  EXPECT_EQ(text(program), "0: copy copy start \n-1: wait ");
  const auto& second = std::get<mesh::Run>(program.instructions[2]);
  const auto& start = std::get<Start>(program.instructions[3]);
  EXPECT_EQ(program.buffers[second.outputs[0]].offset,
            program.buffers[start.source].offset + 32 * 4 * sizeof(float))
      << "a view lies in its buffer";
}

TEST_F(GradientReductionTest, WithOneMicrobatchNoWholeGradientIsKept) {
  add_parameter({{{0}, {1}}, {}}, {{{}, {1}}, {0}});
  const Program program = emit(1);
  EXPECT_EQ(text(program), "0: start \n-1: wait ");
  EXPECT_EQ(program.persistents.size(), 2u) << "the parameter, the part";
}

TEST_F(GradientReductionTest, WithGatherUseDevicesAddUpTheirParts) {
  add_parameter({{{0}, {1}}, {}}, {{{}, {1}}, {0}});
  partition_.per_mesh[MeshId(0)].gather = GatherFrequency::kUse;
  const Program program = emit(3);
  EXPECT_EQ(text(program), "0: start \n1: wait set start \n2: wait add start \n-1: wait add ");
  EXPECT_EQ(program.persistents.size(), 2u) << "the parameter, the part";
}

// The parameter is split over `data`; its gradient is partial over `data` and `tensor`.
TEST_F(GradientReductionTest, PartsOfAReduceScatterAreAllReducedOverTheOtherAxes) {
  add_parameter({{{0}, {}}, {}}, {{{}, {}}, {0, 1}});
  const Program program = emit(2);
  ASSERT_EQ(program.transfers.size(), 2u);
  EXPECT_EQ(program.transfers[0].name,
            "reduce-scatter gradients/data/tensor by data of stage 0, 0");
  EXPECT_EQ(program.transfers[1].name,
            "all-reduce reduce-scatter gradients/data/tensor by data of stage 0, 0");
  EXPECT_EQ(program.buffers[whole_[1]].type.shape, (Shape{4, 16}));
}

TEST_F(GradientReductionTest, AReductionThatTheScheduleNamesStartsThere) {
  add_parameter({{{}, {1}}, {}}, {{{}, {1}}, {0}});
  held_starts_ = true;
  EXPECT_EQ(text(emit(1, {StageId(0)})), "0: \n-1: start wait ");
  EXPECT_EQ(numbers_.count(), 2) << "one all-reduce for each index of the axis 'tensor'";
}

TEST_F(GradientReductionTest, InSafeModeDevicesWaitAtOnce) {
  add_parameter({{{}, {1}}, {}}, {{{}, {1}}, {0}});
  EXPECT_EQ(text(emit(2, {}, Lowering::kSafe)), "0: \n1: \n-1: start wait ");
}

}  // namespace
}  // namespace weft::mesh
