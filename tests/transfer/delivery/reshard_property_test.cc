#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/support/engine_cluster.h"
#include "tests/support/plan_check.h"
#include "tests/support/random_sharding.h"
#include "transfer/reshard/plan_stats.h"
#include "transfer/reshard/slices.h"

namespace weft::transfer {
namespace {

struct Case {
  Topology topology;
  ReshardTask task;
  std::string text;
};

Case random_case(std::mt19937_64& random, std::int64_t max_extent) {
  std::vector<int> devices_per_host(1 + random() % 4);
  for (int& devices : devices_per_host) devices = 1 + static_cast<int>(random() % 4);
  Case result{Topology::dense(devices_per_host), {}, {}};
  const DType dtype = std::array{DType::kF32, DType::kBF16, DType::kF64, DType::kU8}[random() % 4];
  const Shape shape = test::random_shape(random, max_extent);
  const auto source = test::random_sharding(random, shape, result.topology.num_devices());
  const auto destination = test::random_sharding(random, shape, result.topology.num_devices());
  result.task = {{dtype, shape}, source.map(shape), destination.map(shape)};
  result.text =
      weft::to_string(shape) + " from " + source.describe() + " to " + destination.describe();
  return result;
}

ChunkOptions random_chunks(std::mt19937_64& random) {
  return {64u << (random() % 4), 64u << (random() % 4),
          1 + static_cast<std::uint32_t>(random() % 3)};
}

TEST(ReshardProperty, EveryReceiverGetsEveryElementExactlyOnceFromADeviceThatHasIt) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200 / WEFT_FEWER_ROUNDS; ++round) {
    const Case c = random_case(random, 9);
    SCOPED_TRACE(fmt::format("seed {} round {}: {}", seed, round, c.text));
    for (const ReshardAlgorithm strategy : kStrategies) {
      SCOPED_TRACE(to_string(strategy));
      const ReshardPlan plan = plan_reshard(c.task, c.topology, strategy, random_chunks(random));
      ASSERT_EQ(test::what_is_wrong(plan), "");
      const PlanStats stats = plan_stats(plan);
      ASSERT_GE(stats.bytes_between_hosts, stats.minimum_between_hosts);
      if (strategy != ReshardAlgorithm::kSendRecv &&
          strategy != ReshardAlgorithm::kLocalAllgather &&
          strategy != ReshardAlgorithm::kGlobalAllgather) {
        ASSERT_EQ(stats.bytes_between_hosts, stats.minimum_between_hosts);
      }
      ASSERT_EQ(decode<ReshardPlan>(encode(plan)), plan);
    }
  }
}

TEST(ReshardProperty, SlicesEqualBruteForce) {
  const std::uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random, 7);
    SCOPED_TRACE(fmt::format("seed {} round {}: {}", seed, round, c.text));
    // Holders and receivers of each element.
    std::map<std::int64_t, std::pair<std::set<DeviceId>, std::set<DeviceId>>> expected, actual;
    for (const Shard& shard : c.task.source.shards) {
      for (const std::int64_t element : test::elements_of(shard.region, c.task.type.shape))
        expected[element].first.insert(shard.device);
    }
    for (const Shard& shard : c.task.destination.shards) {
      for (const std::int64_t element : test::elements_of(shard.region, c.task.type.shape))
        expected[element].second.insert(shard.device);
    }
    for (const Slice& slice : cut_slices(c.task.source, c.task.destination)) {
      for (const std::int64_t element : test::elements_of(slice.region, c.task.type.shape)) {
        auto& [holders, receivers] = actual[element];
        holders.insert(slice.holders.begin(), slice.holders.end());
        for (const auto* devices : {&slice.receivers, &slice.local}) {
          for (const DeviceId device : *devices) ASSERT_TRUE(receivers.insert(device).second);
        }
        for (const DeviceId device : slice.local) ASSERT_TRUE(holders.contains(device));
        for (const DeviceId device : slice.receivers) ASSERT_FALSE(holders.contains(device));
      }
    }
    ASSERT_EQ(actual, expected);
  }
}

TEST(ReshardProperty, EveryStrategyDeliversTheRightBytesOverAReorderingWire) {
  const std::uint64_t seed = 42;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300 / WEFT_FEWER_ROUNDS; ++round) {
    const Case c = random_case(random, 12);
    SCOPED_TRACE(fmt::format("seed {} round {}: {}", seed, round, c.text));
    LoopbackOptions wire;
    wire.eager_bytes = std::array<std::size_t, 3>{0, 100, 4096}[random() % 3];
    if (random() % 4 != 0) wire.shuffle_seed = random();
    test::EngineCluster cluster(c.topology, wire);
    std::vector<ReshardPlan> plans;
    std::vector<std::map<DeviceId, std::unique_ptr<test::Participant>>> transfers;
    for (const ReshardAlgorithm strategy : kStrategies) {
      plans.push_back(plan_reshard(c.task, c.topology, strategy, random_chunks(random)));
      transfers.push_back(test::participants_of(plans.back()));
    }
    // Runs all strategies at once. Each device starts each at a random time, so that some chunks
    // arrive early.
    std::vector<std::pair<std::size_t, DeviceId>> starts;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      for (const auto& [device, participant] : transfers[i]) starts.emplace_back(i, device);
    }
    std::shuffle(starts.begin(), starts.end(), random);
    for (const auto& [i, device] : starts) {
      transfers[i].at(device)->start(*cluster.engines[device.value()],
                                     {1, 2, static_cast<std::uint32_t>(i), 3});
      if (random() % 2 == 0) cluster.poll();
    }
    ASSERT_TRUE(cluster.poll_until([&] {
      return std::all_of(starts.begin(), starts.end(), [&](const auto& start) {
        return transfers[start.first].at(start.second)->report.has_value();
      });
    })) << "transfers are stuck";
    for (const auto& [i, device] : starts) {
      SCOPED_TRACE(fmt::format("device {} in {}", device, to_string(plans[i])));
      const test::Participant& participant = *transfers[i].at(device);
      ASSERT_TRUE(participant.report->outcome.ok())
          << participant.report->outcome.error().describe();
      ASSERT_EQ(participant.report->bytes_received, participant.part.bytes_received());
      ASSERT_EQ(participant.report->bytes_sent, participant.part.bytes_sent());
      test::expect_delivered(participant, plans[i]);
    }
  }
}

}  // namespace
}  // namespace weft::transfer
