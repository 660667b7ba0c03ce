#include "core/tensor/mesh_shape.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "core/codec/codec.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

const MeshShape kShape{{"data", 2}, {"pipe", 3}, {"tensor", 4}};

TEST(MeshShape, RanksCountInRowMajorOrder) {
  EXPECT_EQ(kShape.size(), 24);
  EXPECT_EQ(kShape.coordinates(23), (std::vector<std::int64_t>{1, 2, 3}));
  for (std::int64_t rank = 0; rank < kShape.size(); ++rank)
    EXPECT_EQ(kShape.rank(kShape.coordinates(rank)), rank);
  EXPECT_EQ(MeshShape().size(), 1);
  EXPECT_THAT([&] { (void)kShape.coordinates(24); },
              test::throws_error(ErrorCode::kInvalidArgument, "rank 24 is outside a mesh"));
  EXPECT_THAT(
      [&] {
        (void)kShape.rank(std::vector<std::int64_t>{0, 3, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "coordinate pipe=3 is outside a mesh"));
}

TEST(MeshShape, AnIndexDropsTheAxisAndARangeKeepsIt) {
  const std::vector<AxisPart> index{{"pipe", 1}};
  EXPECT_EQ(kShape.slice(index).shape, (MeshShape{{"data", 2}, {"tensor", 4}}));
  EXPECT_EQ(kShape.slice(index).ranks, (std::vector<std::int64_t>{4, 5, 6, 7, 16, 17, 18, 19}));
  const std::vector<AxisPart> range{{"tensor", -2, 4}, {"data", 0}};
  EXPECT_EQ(kShape.slice(range).shape, (MeshShape{{"pipe", 3}, {"tensor", 2}}));
  EXPECT_EQ(kShape.slice(range).ranks, (std::vector<std::int64_t>{2, 3, 6, 7, 10, 11}));
}

TEST(MeshShape, WrongSlicesAndShapesAreErrors) {
  const std::vector<AxisPart> unknown{{"model", 0}}, outside{{"data", 2}}, empty{{"data", 1, 1}};
  EXPECT_THAT([&] { (void)kShape.slice(unknown); },
              test::throws_error(ErrorCode::kNotFound, "no axis 'model' to slice"));
  EXPECT_THAT(
      [&] { (void)kShape.slice(outside); },
      test::throws_error(ErrorCode::kInvalidArgument, "[2,3) of axis 'data' is empty or outside"));
  EXPECT_THAT(
      [&] { (void)kShape.slice(empty); },
      test::throws_error(ErrorCode::kInvalidArgument, "[1,1) of axis 'data' is empty or outside"));
  EXPECT_THAT(
      [&] {
        (MeshShape{{"data", 0}});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "mesh axis 'data' has size 0"));
  EXPECT_THAT(
      [&] {
        (MeshShape{{"data", 1}, {"data", 2}});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "mesh axis 'data' is given twice"));
}

TEST(MeshShape, MoreRanksThanCanBeCountedAreRefusedAlsoInAMessage) {
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ((MeshShape{{"data", kMost}, {"pipe", 1}}).size(), kMost);
  EXPECT_EQ(
      test::error_of([] {
        (void)MeshShape{{"data", kMost}, {"tensor", 2}};
      }).message(),
      "a mesh of shape [data=9223372036854775807,tensor=2] has more than 2^63 - 1 ranks (from "
      "axis 'tensor' on)");
  // Encoded axes {"data", 2^62} and {"tensor", 2^62}, whose product overflows to 0.
  const auto bytes = encode(
      std::vector<MeshAxis>{{"data", std::int64_t{1} << 62}, {"tensor", std::int64_t{1} << 62}});
  EXPECT_EQ(test::error_of([&] { decode<MeshShape>(bytes).check(); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(MeshShape, APositionWithoutAxesIsAnEmptyText) {
  const MeshShape mesh = {{"data", 2}, {"tensor", 3}};
  EXPECT_EQ(to_string(mesh, mesh.coordinates(5)), "[data=1,tensor=2]");
  EXPECT_EQ(to_string(MeshShape(), MeshShape().coordinates(0)), "");
}

}  // namespace
}  // namespace weft
