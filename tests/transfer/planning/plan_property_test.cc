#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/support/plan_check.h"
#include "tests/support/random_sharding.h"
#include "transfer/flow/simulate.h"
#include "transfer/reshard/plan_stats.h"

namespace weft::transfer {
namespace {

struct Case {
  Topology topology;
  Network network;
  std::vector<ReshardTask> tasks;
  std::string text;
};

/// Makes hosts with up to four devices and links of different speeds, and tensors on meshes that
/// may overlap, with uneven shards.
Case random_case(std::mt19937_64& random, std::int64_t max_extent, std::size_t max_tensors) {
  std::vector<int> devices(1 + random() % 6);
  for (int& count : devices) count = 1 + static_cast<int>(random() % 4);
  Case result{Topology::dense(devices), {}, {}, {}};
  const bool equal = random() % 3 == 0;
  for (std::size_t host = 0; host < devices.size(); ++host) {
    Network::HostLinks links;
    for (std::size_t nic = 0; nic < 1 + (equal ? 0 : random() % 2); ++nic) {
      const auto speed = [&] { return equal ? 1e8 : 2e7 * (1 + random() % 8); };
      links.nics.push_back({speed(), speed()});
    }
    result.network.hosts.push_back(links);
  }
  result.network.hop_seconds = 0;
  const std::size_t tensors = 1 + random() % max_tensors;
  for (std::size_t i = 0; i < tensors; ++i) {
    if (i > 0 && random() % 3 == 0) {
      result.tasks.push_back(result.tasks[random() % i]);  // repeats tensors, as in models
      continue;
    }
    const DType dtype = std::array{DType::kF32, DType::kI32, DType::kF64, DType::kU8}[random() % 4];
    const Shape shape = test::random_shape(random, max_extent);
    const auto source = test::random_sharding(random, shape, result.topology.num_devices());
    const auto destination = test::random_sharding(random, shape, result.topology.num_devices());
    result.tasks.push_back({{dtype, shape}, source.map(shape), destination.map(shape)});
    result.text += fmt::format(" {} from {} to {};", weft::to_string(shape), source.describe(),
                               destination.describe());
  }
  return result;
}

bool sends_each_host_once(ReshardAlgorithm strategy) {
  return strategy != ReshardAlgorithm::kSendRecv && strategy != ReshardAlgorithm::kLocalAllgather &&
         strategy != ReshardAlgorithm::kGlobalAllgather;
}

TEST(PlanProperty, EveryWantedByteOfEveryTensorIsDeliveredOnceByEveryStrategy) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 250; ++round) {
    const Case c = random_case(random, 7, 4);
    SCOPED_TRACE(fmt::format("seed {} round {}:{}", seed, round, c.text));
    PlanOptions options;
    if (random() % 2 == 0)
      options.chunks = ChunkOptions{64u << (random() % 4), 64u << (random() % 4),
                                    1 + static_cast<std::uint32_t>(random() % 3)};
    for (const ReshardAlgorithm strategy : kStrategies) {
      SCOPED_TRACE(to_string(strategy));
      const ReshardPlan plan = plan_reshard(c.tasks, c.topology, c.network, strategy, options);
      ASSERT_EQ(test::what_is_wrong(plan), "");
      const PlanStats stats = plan_stats(plan);
      ASSERT_GE(stats.bytes_between_hosts, stats.minimum_between_hosts);
      if (sends_each_host_once(strategy)) {
        ASSERT_EQ(stats.bytes_between_hosts, stats.minimum_between_hosts);
      }
      ASSERT_EQ(decode<ReshardPlan>(encode(plan)), plan);
      ASSERT_EQ(plan_reshard(c.tasks, c.topology, c.network, strategy, options).digest(),
                plan.digest())
          << "deterministic";
    }
  }
}

/// Tensors of up to 8 MiB are large enough to be cut and chunked. They are too large to count each
/// byte.
TEST(PlanProperty, WeftIsNeverWorseThanTheOthersAndNothingBeatsTheLimit) {
  const std::uint64_t seed = 7;
  std::mt19937_64 random(seed);
  double worst = 1;
  for (int round = 0; round < 150; ++round) {
    Case c = random_case(random, 12, 3);
    for (ReshardTask& task : c.tasks) {
      // Adds 256 KiB per element.
      const auto widen = [&](ShardMap& map) {
        map.shape.push_back(32768);
        for (Shard& shard : map.shards) {
          std::vector<Interval> intervals(shard.region.intervals().begin(),
                                          shard.region.intervals().end());
          intervals.push_back({0, 32768});
          shard.region = Region(std::move(intervals));
        }
      };
      if (task.type.shape.size() > 2) continue;
      widen(task.source);
      widen(task.destination);
      task.type.shape.push_back(32768);
    }
    SCOPED_TRACE(
        fmt::format("seed {} round {}:{} on {}", seed, round, c.text, to_string(c.network)));
    double best = 1e18, weft = 0;
    for (const ReshardAlgorithm strategy : kStrategies) {
      const ReshardPlan plan = plan_reshard(c.tasks, c.topology, c.network, strategy);
      const double seconds =
          simulate(plan.flows, c.topology, c.network, {.send_slots = plan.egress_slots}).seconds;
      ASSERT_GE(seconds, plan.limit.seconds * (1 - 1e-9)) << to_string(strategy);
      ASSERT_NEAR(plan.predicted_seconds, seconds, seconds * 0.01);
      const PlanStats stats = plan_stats(plan);
      // A few chunks may move faster if the other links carry more than the minimum.
      if (plan.limit.seconds > 0.02 || stats.bytes_between_hosts == stats.minimum_between_hosts)
        best = std::min(best, seconds);
      if (strategy != ReshardAlgorithm::kWeft) continue;
      weft = seconds;
      if (plan.limit.seconds > 0) worst = std::min(worst, plan.limit.seconds / seconds);
    }
    ASSERT_LE(weft, best * 1.02);
  }
  RecordProperty("worst_ratio_to_limit", fmt::format("{:.3f}", worst));
}

}  // namespace
}  // namespace weft::transfer
