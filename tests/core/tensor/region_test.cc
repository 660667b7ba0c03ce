#include "core/tensor/region.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

TEST(Region, DisjointInOneDimensionMeansNoOverlap) {
  EXPECT_FALSE(Region({{0, 4}, {0, 8}}).intersect(Region({{0, 4}, {8, 12}})));
}

TEST(Region, OverlapIsTheBoxInBoth) {
  EXPECT_EQ(Region({{0, 4}, {0, 8}}).intersect(Region({{2, 6}, {4, 12}})),
            Region({{2, 4}, {4, 8}}));
}

TEST(Region, EmptyIntervalIsRefused) {
  EXPECT_THAT(
      [&] {
        Region({{0, 4}, {3, 3}});
      },
      test::throws_error(ErrorCode::kInvalidArgument,
                         "dimension 1 of a region is [3,3), which is empty"));
}

TEST(Region, ScalarHasOneElementAndOverlapsItself) {
  EXPECT_EQ(Region().num_elements(), 1);
  EXPECT_EQ(Region().intersect(Region()), Region());
}

TEST(Region, ContiguousWhenInnerDimensionsAreFull) {
  const Region box = Region::whole(Shape{4, 6, 8});
  EXPECT_TRUE(is_contiguous_in(Region({{1, 3}, {0, 6}, {0, 8}}), box));
  EXPECT_TRUE(is_contiguous_in(Region({{1, 2}, {2, 4}, {0, 8}}), box));
  EXPECT_FALSE(is_contiguous_in(Region({{1, 3}, {2, 4}, {0, 8}}), box));
}

TEST(Region, CopyRefusesARegionOutsideABox) {
  std::vector<std::byte> a(16), b(16);
  EXPECT_THAT(
      [&] {
        copy_region(Region({{2, 6}}), 4, Region({{0, 4}}), a, Region({{2, 6}}), b);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "is not inside both"));
}

TEST(Region, CopyEqualsElementwiseCopyOnRandomBoxes) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const std::size_t rank = random() % 5;
    std::vector<Interval> region, from_box, to_box;
    for (std::size_t i = 0; i < rank; ++i) {
      const auto pick = [&](std::int64_t bound) {
        return static_cast<std::int64_t>(random() % bound);
      };
      const std::int64_t begin = 3 + pick(3), end = begin + 1 + pick(4);
      region.push_back({begin, end});
      from_box.push_back({begin - pick(3), end + pick(2)});
      to_box.push_back({begin - pick(2), end + pick(3)});
    }
    const Region r(region), f(from_box), t(to_box);
    std::vector<std::int32_t> from(f.num_elements()), to(t.num_elements(), -1);
    std::iota(from.begin(), from.end(), 0);
    auto expected = to;
    const auto fs = row_major_strides(f.shape()), ts = row_major_strides(t.shape());
    std::vector<std::int64_t> index;
    for (const Interval& interval : r.intervals()) index.push_back(interval.begin);
    while (true) {
      std::int64_t fo = 0, to_offset = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        fo += (index[i] - f[i].begin) * fs[i];
        to_offset += (index[i] - t[i].begin) * ts[i];
      }
      expected[to_offset] = from[fo];
      std::size_t d = rank;
      while (d > 0 && ++index[d - 1] == r[d - 1].end) {
        index[d - 1] = r[d - 1].begin;
        --d;
      }
      if (d == 0) break;
    }
    copy_region(r, 4, f, std::as_bytes(std::span(from)), t, std::as_writable_bytes(std::span(to)));
    ASSERT_EQ(to, expected) << to_string(r) << " from " << to_string(f) << " to " << to_string(t);
  }
}

TEST(Region, PartsOfAnExtentMeetAndNeverOverflow) {
  EXPECT_EQ(part_of(10, 1, 4), (Interval{2, 5}));
  for (const std::int64_t extent :
       {std::int64_t{7}, std::int64_t{4096}, std::numeric_limits<std::int64_t>::max()}) {
    for (const std::int64_t parts : {1, 2, 3, 1000}) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Interval part = part_of(extent, i, parts);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.size() - extent / parts, 1);
        end = part.end;
      }
      EXPECT_EQ(end, extent);
    }
  }
}

TEST(TensorType, SizesThatOverflowAreErrors) {
  const TensorType wraps{DType::kF32, {std::int64_t{1} << 32, std::int64_t{1} << 32, 4}};
  EXPECT_FALSE(wraps.is_within_limit());
  EXPECT_THAT([&] { wraps.bytes(); },
              test::throws_error(ErrorCode::kInvalidArgument, "the limit for one tensor"));
  EXPECT_THAT([&] { wraps.elements(); },
              test::throws_error(ErrorCode::kInvalidArgument, "more than 2^63 - 1 elements"));
  EXPECT_THAT([&] { Region::whole(wraps.shape).num_elements(); },
              test::throws_error(ErrorCode::kInvalidArgument, "more than 2^63 - 1 elements"));
  const TensorType most{DType::kF32, {std::int64_t{1} << 48}};
  EXPECT_EQ(most.bytes(), static_cast<std::size_t>(kMaxTensorBytes));
  EXPECT_FALSE((TensorType{DType::kF32, {(std::int64_t{1} << 48) + 1}}).is_within_limit());
}

}  // namespace
}  // namespace weft
