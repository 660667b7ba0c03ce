#include "mesh/program/capture_segments.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

/// Makes a program with seven buffers. 0 and 1 have the same offset; 2 and 3 have their own. 4 has
/// the offset of 2 and another shape. 5 lies in a persistent block, 6 in that of the losses.
Program program_with(std::vector<Instruction> instructions) {
  Program program;
  const TensorType row{DType::kF32, {8}}, square{DType::kF32, {2, 4}};
  program.buffers = {{row, -1, 0},
                     {row, -1, 0},
                     {row, -1, 64},
                     {row, -1, 128},
                     {square, -1, 64},
                     {row, 0, 64},
                     {{DType::kF32, {}}, 1, 4}};
  program.persistents = {{"gradient/w", 128}, {"losses/train", 8}};
  program.ops = {{OpKind::kGelu, {}}, {OpKind::kSilu, {}}, {OpKind::kGelu, {}}};
  program.instructions = std::move(instructions);
  return program;
}

std::vector<std::uint32_t> works(std::vector<Instruction> instructions) {
  std::vector<std::uint32_t> result;
  for (const CaptureSegment& segment : find_capture_segments(program_with(std::move(instructions))))
    result.push_back(segment.work);
  return result;
}

const mesh::Run kAny{0, {3}, {3}};

TEST(Segments, AreAsLongAsNothingElseStandsBetween) {
  const std::vector<CaptureSegment> found = find_capture_segments(program_with(
      {BeginAction{}, Read{0, 0}, mesh::Run{0, {0}, {2}}, mesh::Run{1, {2}, {3}}, Accumulate{3, 5},
       Start{}, mesh::Run{1, {2}, {3}}, Wait{}, BeginAction{0, ActionKind::kForward, 1}, Read{0, 1},
       mesh::Run{0, {1}, {2}}, mesh::Run{1, {2}, {3}}, Accumulate{3, 5}}));
  EXPECT_EQ(found, (std::vector<CaptureSegment>{{2, 5, 0}, {10, 13, 0}}));
  EXPECT_TRUE(find_capture_segments(program_with({})).empty());
}

TEST(Segments, EndBeforeALoss) {
  const mesh::Run loss{2, {0}, {2, 6}};
  EXPECT_EQ(find_capture_segments(program_with({kAny, kAny, loss, kAny, loss, kAny, kAny, kAny})),
            (std::vector<CaptureSegment>{{0, 2, 0}, {5, 8, 1}}));
}

TEST(Segments, WithOtherOpsPlacesTypesOrModesAreOtherWork) {
  const auto differ = [](const Instruction& a, const Instruction& b) {
    return works({a, kAny, Wait{}, b, kAny}) == std::vector<std::uint32_t>{0, 1};
  };
  const mesh::Run run{0, {0}, {2}};
  EXPECT_FALSE(differ(run, run));
  EXPECT_FALSE(differ(run, mesh::Run{2, {1}, {2}}))
      << "an equal op, another buffer in the same place";
  EXPECT_TRUE(differ(run, mesh::Run{1, {0}, {2}}));
  EXPECT_TRUE(differ(run, mesh::Run{0, {0}, {3}}));
  EXPECT_TRUE(differ(run, mesh::Run{0, {0}, {4}})) << "another shape in the same place";
  EXPECT_TRUE(differ(run, mesh::Run{0, {0}, {5}})) << "as far into a block";
  EXPECT_TRUE(differ(run, mesh::Run{0, {0}, {2}, true}));
  EXPECT_TRUE(differ(mesh::Run{0, {0, 2}, {3}}, mesh::Run{0, {0}, {2, 3}}));
  EXPECT_FALSE(differ(Accumulate{0, 5}, Accumulate{1, 5}));
  EXPECT_TRUE(differ(Accumulate{0, 5}, Accumulate{0, 5, true}));
  EXPECT_TRUE(differ(Accumulate{0, 5}, Accumulate{2, 5}));
}

TEST(Segments, AreNumberedAsTheirWorkComesFirst) {
  const mesh::Run a{0, {0}, {2}}, b{1, {0}, {2}};
  EXPECT_EQ(works({a, a, Wait{}, b, b, Wait{}, a, a, Wait{}, b, b, b, Wait{}, b, b}),
            (std::vector<std::uint32_t>{0, 1, 0, 2, 1}));
}

}  // namespace
}  // namespace weft::mesh
