#include "transfer/nccl/internal/strided_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace weft::transfer {
namespace {

void run(const StridedCopy& copy, const std::byte* from, std::byte* to) {
  std::vector<std::uint64_t> index(copy.outer.size());
  for (std::uint64_t n = copy.bytes() / copy.run_bytes; n-- > 0;) {
    std::uint64_t from_at = copy.from.offset, to_at = copy.to.offset;
    for (std::size_t d = 0; d < index.size(); ++d) {
      from_at += index[d] * copy.outer[d].from_stride;
      to_at += index[d] * copy.outer[d].to_stride;
    }
    std::memcpy(to + to_at, from + from_at, copy.run_bytes);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < copy.outer[d].count) break;
      index[d] = 0;
    }
  }
}

/// Makes a random region inside a box of up to 4 dimensions.
std::pair<Region, Region> random_boxes(std::mt19937_64& random) {
  std::vector<Interval> inner, outer;
  for (std::size_t d = 0, rank = random() % 5; d < rank; ++d) {
    const std::int64_t begin = random() % 4, size = 1 + static_cast<std::int64_t>(random() % 5);
    inner.push_back({begin, begin + size});
    outer.push_back(random() % 2 == 0 ? inner.back()
                                      : Interval{begin - static_cast<std::int64_t>(random() % 3),
                                                 begin + size + 1});
  }
  return {Region(inner), Region(outer)};
}

TEST(StridedCopies, GatherAndScatterAnyRangeOfARegion) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    const auto [region, box] = random_boxes(random);
    const std::size_t size = 1u << (random() % 4);
    std::vector<std::byte> memory(box.num_elements() * size);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    std::vector<std::byte> dense(region.num_elements() * size);
    copy_region(region, size, box, memory, region, dense);
    const std::uint64_t begin = random() % dense.size(),
                        bytes = 1 + random() % (dense.size() - begin);
    const BufferPlace staging{BufferKind::kStaging, 0, 8};
    const PlacedBox placed{{BufferKind::kSource, 0, 0}, box};

    std::vector<std::byte> out(8 + bytes, std::byte{0});
    for (const StridedCopy& copy : gather_copies(region, size, begin, bytes, placed, staging))
      run(copy, memory.data(), out.data());
    ASSERT_EQ(std::memcmp(out.data() + 8, dense.data() + begin, bytes), 0);

    std::vector<std::byte> expected(memory.size(), std::byte{0x11}), written = expected;
    std::vector<std::byte> marked(dense.size(), std::byte{0x11});
    std::copy_n(dense.begin() + begin, bytes, marked.begin() + begin);
    copy_region(region, size, region, marked, box, expected);
    for (const StridedCopy& copy : scatter_copies(region, size, begin, bytes, staging, placed))
      run(copy, out.data(), written.data());
    ASSERT_EQ(written, expected);
  }
}

TEST(StridedCopies, DimensionsThatLieSideBySideAreOne) {
  const Region region({{2, 4}, {0, 8}, {0, 4}}), box({{0, 6}, {0, 8}, {0, 4}});
  const StridedCopy copy =
      copy_between(region, 4, {{BufferKind::kSource, 0, 0}, box}, {{}, region});
  EXPECT_TRUE(copy.outer.empty());
  EXPECT_EQ(copy.run_bytes, 256u);
  EXPECT_EQ(copy.from.offset, 256u);
  // Half of the columns: one run per row of the last dimension, at a constant stride.
  const Region columns({{0, 6}, {0, 8}, {0, 2}});
  const StridedCopy strided =
      copy_between(columns, 4, {{BufferKind::kSource, 0, 0}, box}, {{}, columns});
  ASSERT_EQ(strided.outer.size(), 1u);
  EXPECT_EQ(strided.outer[0], (StridedCopy::Dimension{48, 16, 8}));
  EXPECT_EQ(strided.run_bytes, 8u);
}

}  // namespace
}  // namespace weft::transfer
