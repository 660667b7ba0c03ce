#include "mesh/program/internal/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weft::mesh {
namespace {

using testing::ElementsAre;

const ReductionGroup kData{{0}, {}}, kScattered{{0}, {0}};

std::vector<std::vector<std::size_t>> sums_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::vector<std::size_t>> sums;
  for (const GradientBucket& bucket : buckets) sums.push_back(bucket.sums);
  return sums;
}

TEST(GradientBuckets, ABiasSharesTheBucketOfTheNextMatrix) {
  const StageId stage(0);
  EXPECT_THAT(sums_of(plan_gradient_buckets({{0, kData, stage, 1, 8, 100},
                                             {1, kData, stage, 1, 200, 100},
                                             {2, kData, stage, 1, 8, 100},
                                             {3, kData, stage, 1, 90, 100},
                                             {4, kData, stage, 1, 90, 100},
                                             {5, kData, stage, 1, 8, 100}})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4), ElementsAre(5)));
}

TEST(GradientBuckets, ABucketHasOneLayerOneStageAndOneReduction) {
  const StageId first(0), second(1);
  const ReductionGroup none;
  EXPECT_THAT(sums_of(plan_gradient_buckets({{0, kData, second, 2, 8, 100},
                                             {1, kScattered, second, 2, 8, 100},
                                             {2, kData, second, 2, 8, 100},
                                             {3, kData, second, 1, 8, 100},
                                             {4, none, second, 1, 8, 100},
                                             {5, kData, first, 1, 8, 100},
                                             {6, kScattered, second, 2, 8, 100}})),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 6), ElementsAre(3), ElementsAre(5)));
}

TEST(GradientBuckets, AFullBucketTakesTenLatenciesOfTheSlowestLink) {
  using transfer::DeviceId;
  const DeviceMesh mesh("m", {{"data", 2}, {"tensor", 2}},
                        {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)});
  const transfer::Topology topology = transfer::Topology::dense({2, 2});
  transfer::Network network = transfer::Network::uniform(2, 100e6);
  network.hop_seconds = 1e-3;
  network.hosts[1].nics[0].egress = 50e6;
  EXPECT_EQ(full_bucket_bytes(mesh, {0}, topology, network), 500'000u);
  constexpr std::uint64_t kDefault = 4 << 20;
  EXPECT_EQ(full_bucket_bytes(mesh, {1}, topology, network), kDefault) << "inside the hosts";
  EXPECT_EQ(full_bucket_bytes(mesh, {0}, topology, std::nullopt), kDefault);
}

}  // namespace
}  // namespace weft::mesh
