#include "transfer/reshard/plan_cache.h"

#include <gtest/gtest.h>

namespace weft::transfer {
namespace {

ReshardTask one_to_one(std::int64_t size) {
  const Shape shape = {size};
  const Region whole = Region::whole(shape);
  return {{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, {shape, {{DeviceId(1), whole}}}};
}

TEST(PlanCache, EqualArgumentsGetTheSamePlanAndOthersTheirOwn) {
  PlanCache cache;
  const std::vector<ReshardTask> tasks = {one_to_one(64)}, others = {one_to_one(65)};
  const Topology topology = Topology::dense({1, 1});
  const Network network = Network::uniform(2, 1e8), faster = Network::uniform(2, 2e8);
  const auto first = cache.plan(tasks, topology, network, ReshardAlgorithm::kWeft);
  EXPECT_EQ(cache.plan(tasks, topology, network, ReshardAlgorithm::kWeft), first);
  EXPECT_EQ(*first, plan_reshard(tasks, topology, network, ReshardAlgorithm::kWeft));
  PlanOptions options;
  options.chunks = ChunkOptions{64, 64, 1};
  EXPECT_NE(cache.plan(tasks, topology, network, ReshardAlgorithm::kWeft, options), first);
  EXPECT_NE(cache.plan(tasks, topology, network, ReshardAlgorithm::kBroadcast), first);
  EXPECT_NE(cache.plan(tasks, topology, faster, ReshardAlgorithm::kWeft), first);
  EXPECT_NE(cache.plan(others, topology, network, ReshardAlgorithm::kWeft), first);
  EXPECT_EQ(cache.hits(), 1u);
  EXPECT_EQ(cache.misses(), 5u);
}

TEST(PlanCache, EvictsTheLeastRecentlyUsedPlan) {
  PlanCache cache(2);
  const Topology topology = Topology::dense({1, 1});
  const Network network = Network::uniform(2, 1e8);
  const auto ask = [&](std::int64_t size) {
    return cache.plan(std::vector{one_to_one(size)}, topology, network, ReshardAlgorithm::kWeft);
  };
  const auto kept = ask(1);
  ask(2);
  ask(1);
  ask(3);  // evicts 2
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(ask(1), kept);
  EXPECT_EQ(cache.misses(), 3u);
  ask(2);
  EXPECT_EQ(cache.misses(), 4u);
  ask(3);
  EXPECT_EQ(ask(3)->tasks.front().type.shape, Shape{3});
  EXPECT_EQ(kept->tasks.front().type.shape, Shape{1}) << "a plan outlives its place";
}

}  // namespace
}  // namespace weft::transfer
