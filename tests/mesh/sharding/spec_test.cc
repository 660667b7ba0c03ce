#include "mesh/sharding/spec.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

DeviceMesh two_by_three() {
  std::vector<transfer::DeviceId> devices;
  for (std::uint32_t i = 0; i < 6; ++i) devices.emplace_back(i);
  return DeviceMesh("m", {{"data", 2}, {"tensor", 3}}, devices);
}

TEST(Spec, TwoAxesOnOneDimensionSplitOuterFirst) {
  const Spec spec{{{0, 1}}, {}};
  EXPECT_EQ(region_of({12}, spec, two_by_three(), 4), Region({{8, 10}}));
}

TEST(Spec, UnevenChunksDifferByAtMostOne) {
  const Spec spec{{{1}}, {}};
  EXPECT_EQ(region_of({7}, spec, two_by_three(), 0), Region({{0, 2}}));
  EXPECT_EQ(region_of({7}, spec, two_by_three(), 1), Region({{2, 4}}));
  EXPECT_EQ(region_of({7}, spec, two_by_three(), 2), Region({{4, 7}}));
}

TEST(Spec, MoreChunksThanElementsAreRefused) {
  EXPECT_THAT(
      [&] {
        region_of({2}, {{{1}}, {}}, two_by_three(), 0);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "cannot be split 3 ways"));
}

TEST(Spec, FirstReplicaIsTheOneAtZeroOfTheAxesThatReplicate) {
  const Spec spec{{{1}}, {}};
  EXPECT_TRUE(is_first_replica(spec, two_by_three(), 2));
  EXPECT_FALSE(is_first_replica(spec, two_by_three(), 5));
  const Spec partial{{{}}, {0}};
  EXPECT_TRUE(is_first_replica(partial, two_by_three(), 3));
  EXPECT_FALSE(is_first_replica(partial, two_by_three(), 4));
}

TEST(Spec, PrintsAxisNames) {
  EXPECT_EQ(to_string(Spec{{{0, 1}, {}}, {}}, two_by_three()), "[data+tensor,-]");
  EXPECT_EQ(to_string(Spec{{{}}, {1}}, two_by_three()), "[-] partial(tensor)");
}

TEST(DeviceMesh, RanksAreRowMajor) {
  const DeviceMesh mesh = two_by_three();
  EXPECT_EQ(mesh.coordinate(4), (Coordinate{1, 1}));
  EXPECT_EQ(mesh.rank({1, 2}), 5);
  EXPECT_EQ(mesh.group(4, 0), (std::vector<int>{1, 4}));
  EXPECT_EQ(device_name(mesh, 3), "m[1,0]");
}

TEST(DeviceMesh, ASizeThatDoesNotFitItsDevicesIsRefused) {
  EXPECT_THAT(
      [&] {
        DeviceMesh("m", {{"a", 2}}, {transfer::DeviceId(0)});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "mesh 'm' has 2 coordinates but 1 devices"));
  EXPECT_THAT(
      [&] {
        DeviceMesh("m", {{"a", 1}, {"a", 1}}, {transfer::DeviceId(0)});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "mesh axis 'a' is given twice"));
}

}  // namespace
}  // namespace weft::mesh
