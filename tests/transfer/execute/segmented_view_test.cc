#include "transfer/execute/internal/segmented_view.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

constexpr auto kSource = SegmentedView::BoxSide::kSource;
using BufferOffset = SegmentedView::BufferOffset;

TEST(SegmentedView, JoinsSegmentsOfSeveralTensors) {
  const std::vector<TensorPart> tensors = {{DType::kF32, Region({{0, 4}, {0, 8}}), {}},
                                           {DType::kU8, Region({{0, 100}}), {}}};
  // Selects 8 of the 16 bytes of two strided runs, then 10 bytes, then the other 8.
  const Region strided({{1, 3}, {2, 4}});
  const SegmentedView view(
      std::vector<Segment>{{0, strided, 0, 8}, {1, Region({{20, 50}}), 5, 10}, {0, strided, 8, 8}},
      tensors, kSource);
  EXPECT_EQ(view.bytes(), 26u);
  EXPECT_EQ(view.contiguous(0, 8), (BufferOffset{0, 40}));
  EXPECT_EQ(view.contiguous(8, 10), (BufferOffset{1, 25}));
  EXPECT_EQ(view.contiguous(20, 6), (BufferOffset{0, 74}));
  EXPECT_EQ(view.contiguous(4, 8), std::nullopt) << "spans two segments";
}

TEST(SegmentedView, SegmentsOutsideTheDevicesTensorsAreRefused) {
  const std::vector<TensorPart> tensors = {{DType::kF32, Region({{0, 8}}), {}}};
  const auto view = [&](const Segment& segment, SegmentedView::BoxSide side = kSource) {
    return SegmentedView(std::span(&segment, 1), tensors, side);
  };
  EXPECT_EQ(view({0, Region({{2, 4}}), 4, 4}).contiguous(0, 4), (BufferOffset{0, 12}));
  EXPECT_THAT(
      [&] {
        view({1, Region({{2, 4}}), 0, 8});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "the part has no such tensor"));
  EXPECT_THAT(
      [&] {
        view({0, Region({{2, 4}}), 4, 8});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "the region has fewer bytes"));
  EXPECT_THAT(
      [&] {
        view({0, Region({{2, 4}}), 9, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "the region has fewer bytes"));
  EXPECT_THAT(
      [&] {
        view({0, Region({{2, 4}}), 0, 8}, SegmentedView::BoxSide::kDestination);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "this device wants nothing of it"));
}

TEST(SegmentedView, EveryRangeEqualsThatOfTheConcatenation) {
  const std::uint64_t seed = 4;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<TensorPart> tensors(1 + random() % 3);
    std::vector<std::vector<std::byte>> memory;
    for (TensorPart& tensor : tensors) {
      tensor.dtype = random() % 2 == 0 ? DType::kF32 : DType::kU8;
      tensor.source = Region({{0, 2 + static_cast<std::int64_t>(random() % 6)},
                              {0, 2 + static_cast<std::int64_t>(random() % 6)}});
      auto& bytes = memory.emplace_back(tensor.source_bytes());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
    std::vector<Segment> segments(1 + random() % 5);
    std::vector<std::byte> payload;
    for (Segment& segment : segments) {
      segment.tensor = static_cast<std::uint32_t>(random() % tensors.size());
      const TensorPart& tensor = tensors[segment.tensor];
      const std::uint64_t rows = (*tensor.source)[0].size();
      const std::int64_t row = random() % rows;
      segment.region = Region({{row, row + 1 + static_cast<std::int64_t>(random() % (rows - row))},
                               {random() % 2 == 0 ? 0 : 1, (*tensor.source)[1].end}});
      std::vector<std::byte> dense(Segment::whole(0, segment.region, size_of(tensor.dtype)).bytes);
      copy_region(segment.region, size_of(tensor.dtype), *tensor.source, memory[segment.tensor],
                  segment.region, dense);
      segment.begin = random() % dense.size();
      segment.bytes = 1 + random() % (dense.size() - segment.begin);
      const auto begin = dense.begin() + segment.begin;
      payload.insert(payload.end(), begin, begin + segment.bytes);
    }
    const SegmentedView view(segments, tensors, kSource);
    ASSERT_EQ(view.bytes(), payload.size());
    const std::vector<std::span<const std::byte>> buffers(memory.begin(), memory.end());
    for (int range = 0; range < 10; ++range) {
      const std::size_t begin = random() % payload.size(),
                        count = 1 + random() % (payload.size() - begin);
      const std::vector<std::byte> expected(payload.begin() + begin,
                                            payload.begin() + (begin + count));
      std::vector<std::byte> got(count);
      view.gather(buffers, begin, got);
      ASSERT_EQ(got, expected);
      if (const auto at = view.contiguous(begin, count)) {
        const auto there = buffers[at->tensor].subspan(at->offset, count);
        ASSERT_TRUE(std::equal(there.begin(), there.end(), expected.begin()));
      }
      // Scattering the gathered bytes restores them, unless segments overlap.
      auto copies = memory;
      const std::vector<std::span<std::byte>> targets(copies.begin(), copies.end());
      view.scatter(got, begin, targets);
      ASSERT_EQ(copies, memory) << "the same bytes again";
    }
  }
}

}  // namespace
}  // namespace weft::transfer
