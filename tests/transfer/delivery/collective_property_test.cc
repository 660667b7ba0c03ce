#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <type_traits>

#include "core/tensor/bfloat16.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/random_sharding.h"
#include "tests/support/thrown_error.h"
#include "transfer/reshard/collective.h"

namespace weft::transfer {
namespace {

std::vector<DeviceId> random_group(std::mt19937_64& random, std::size_t num_devices) {
  std::vector<DeviceId> group;
  for (std::uint32_t i = 0; i < num_devices; ++i) group.emplace_back(i);
  std::shuffle(group.begin(), group.end(), random);
  group.resize(1 + random() % num_devices);
  return group;
}

/// Makes values whose sum depends on the order.
template <typename T>
std::vector<T> random_values(std::mt19937_64& random, std::size_t count) {
  std::vector<T> values(count);
  for (T& value : values)
    value =
        static_cast<T>(std::ldexp(random() % 2000001 - 1e6, static_cast<int>(random() % 40) - 20));
  return values;
}

template <typename T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Reduces in rank order. Sums bf16 in f32 and rounds at the end.
template <typename T>
std::vector<T> reduce_in_order(const std::vector<std::vector<T>>& terms, ReduceOp op) {
  using Sum = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
  std::vector<T> result;
  for (std::size_t i = 0; i < terms[0].size(); ++i) {
    Sum sum = static_cast<Sum>(terms[0][i]);
    for (std::size_t rank = 1; rank < terms.size(); ++rank) {
      const Sum term = static_cast<Sum>(terms[rank][i]);
      sum = op == ReduceOp::kSum ? sum + term : std::max(sum, term);
    }
    result.push_back(static_cast<T>(sum));
  }
  return result;
}

struct Setting {
  Topology topology;
  LoopbackOptions wire;
  CollectiveOptions options;
};

Setting random_setting(std::mt19937_64& random) {
  std::vector<int> devices_per_host(1 + random() % 3);
  for (int& devices : devices_per_host) devices = 1 + static_cast<int>(random() % 3);
  Setting setting{Topology::dense(devices_per_host), {}, {}};
  setting.wire.eager_bytes = random() % 2 == 0 ? 0 : 200;
  if (random() % 4 != 0) setting.wire.shuffle_seed = random();
  setting.options.chunks = {64u << (random() % 3), 64u << (random() % 3),
                            1 + static_cast<std::uint32_t>(random() % 3)};
  setting.options.max_one_hop_bytes = random() % 2 == 0 ? 0 : 512;
  return setting;
}

/// Starts the ranks in random order at random times. Returns the destinations by rank.
std::vector<std::vector<std::byte>> run(std::mt19937_64& random, const Setting& setting,
                                        const CollectivePlan& plan,
                                        const std::vector<std::vector<std::byte>>& sources) {
  test::EngineCluster cluster(setting.topology, setting.wire);
  std::vector<std::unique_ptr<test::Participant>> participants;
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    participants.push_back(
        std::make_unique<test::Participant>(plan.device_part(plan.ranks[rank].device),
                                            std::vector<std::vector<std::byte>>{sources[rank]}));
    order.push_back(rank);
  }
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t rank : order) {
    participants[rank]->start(*cluster.engines[plan.ranks[rank].device.value()], {1, 1, 1, 1});
    if (random() % 2 == 0) cluster.poll();
  }
  EXPECT_TRUE(cluster.poll_until([&] {
    return std::all_of(participants.begin(), participants.end(),
                       [](const auto& p) { return p->report.has_value(); });
  })) << to_string(plan);
  std::vector<std::vector<std::byte>> results;
  for (const auto& participant : participants) {
    EXPECT_TRUE(participant->report && participant->report->outcome.ok());
    results.push_back(participant->destination());
  }
  return results;
}

template <typename T>
void all_reduce_rounds(DType dtype, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const Setting setting = random_setting(random);
    const auto group = random_group(random, setting.topology.num_devices());
    const ReduceOp op = random() % 4 == 0 ? ReduceOp::kMax : ReduceOp::kSum;
    const std::size_t count = 1 + random() % 700;
    const auto plan = plan_all_reduce(dtype, Region({{0, static_cast<std::int64_t>(count)}}), group,
                                      setting.topology, op, setting.options);
    ASSERT_EQ(decode<CollectivePlan>(encode(plan)), plan);
    std::vector<std::vector<T>> terms;
    std::vector<std::vector<std::byte>> sources;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      terms.push_back(random_values<T>(random, count));
      sources.push_back(to_bytes(terms.back()));
    }
    const auto expected = to_bytes(reduce_in_order(terms, op));
    for (const auto& result : run(random, setting, plan, sources))
      ASSERT_EQ(result, expected) << to_string(plan);
  }
}

TEST(CollectiveProperty, AllReduceSumsInRankOrderOnEveryRankF32) {
  all_reduce_rounds<float>(DType::kF32, 1);
}
TEST(CollectiveProperty, AllReduceSumsInRankOrderOnEveryRankF64) {
  all_reduce_rounds<double>(DType::kF64, 2);
}
TEST(CollectiveProperty, AllReduceSumsInRankOrderOnEveryRankBF16) {
  all_reduce_rounds<BFloat16>(DType::kBF16, 6);
}

TEST(CollectiveProperty, AllReduceInPlaceGivesTheSameBits) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const Setting setting = random_setting(random);
    const auto group = random_group(random, setting.topology.num_devices());
    const std::size_t count = 1 + random() % (round % 2 == 0 ? 100 : 3000);
    const auto plan = plan_all_reduce(DType::kF32, Region({{0, static_cast<std::int64_t>(count)}}),
                                      group, setting.topology, ReduceOp::kSum, setting.options);
    std::vector<std::vector<float>> terms, buffers;
    for (std::size_t rank = 0; rank < group.size(); ++rank)
      terms.push_back(random_values<float>(random, count));
    buffers = terms;
    test::EngineCluster cluster(setting.topology, setting.wire);
    std::vector<DevicePart> parts;
    for (const DeviceId device : group) parts.push_back(plan.device_part(device));
    std::size_t done = 0;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      const auto in = std::as_bytes(std::span(buffers[rank]));
      const auto out = std::as_writable_bytes(std::span(buffers[rank]));
      cluster.engines[group[rank].value()]->start(
          parts[rank], {1, 1, 1, 1}, {&in, 1}, {&out, 1}, {std::chrono::seconds(60)},
          [&done](const TransferReport& report) { done += report.outcome.ok() ? 1 : 0; });
      if (random() % 2 == 0) cluster.poll();
    }
    ASSERT_TRUE(cluster.poll_until([&] { return done == group.size(); }));
    const auto expected = reduce_in_order(terms, ReduceOp::kSum);
    for (const auto& buffer : buffers) ASSERT_EQ(buffer, expected);
  }
}

/// Makes a random box, split among the group along one dimension.
std::pair<Region, std::vector<Shard>> random_cut(std::mt19937_64& random,
                                                 const std::vector<DeviceId>& group) {
  std::vector<Interval> box(1 + random() % 3);
  for (Interval& interval : box) {
    interval.begin = random() % 5;
    interval.end = interval.begin + 1 + static_cast<std::int64_t>(random() % 7);
  }
  const std::size_t dimension = random() % box.size();
  const std::int64_t n = group.size();
  const std::int64_t size = n + static_cast<std::int64_t>(random() % 9);
  box[dimension].end = box[dimension].begin + size;
  std::vector<Shard> shards;
  for (std::int64_t i = 0; i < n; ++i) {
    auto piece = box;
    piece[dimension] = {box[dimension].begin + size * i / n,
                        box[dimension].begin + size * (i + 1) / n};
    shards.push_back({group[i], Region(piece)});
  }
  return {Region(box), shards};
}

TEST(CollectiveProperty, ReduceScatterGivesEachRankItsOwnRegionOfTheSum) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const Setting setting = random_setting(random);
    const auto [box, shards] =
        random_cut(random, random_group(random, setting.topology.num_devices()));
    const auto plan = plan_reduce_scatter(DType::kF32, box, shards, setting.topology,
                                          ReduceOp::kSum, setting.options);
    std::vector<std::vector<float>> terms;
    std::vector<std::vector<std::byte>> sources;
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      terms.push_back(random_values<float>(random, box.num_elements()));
      sources.push_back(to_bytes(terms.back()));
    }
    const auto sum = to_bytes(reduce_in_order(terms, ReduceOp::kSum));
    const auto results = run(random, setting, plan, sources);
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      std::vector<std::byte> expected(results[rank].size());
      copy_region(shards[rank].region, 4, box, sum, shards[rank].region, expected);
      ASSERT_EQ(results[rank], expected);
    }
  }
}

TEST(CollectiveProperty, AllGatherGivesEveryRankTheWholeBox) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const Setting setting = random_setting(random);
    const auto [box, shards] =
        random_cut(random, random_group(random, setting.topology.num_devices()));
    const auto plan = plan_all_gather(DType::kF64, box, shards, setting.topology, setting.options);
    const auto whole = to_bytes(random_values<double>(random, box.num_elements()));
    std::vector<std::vector<std::byte>> sources;
    for (const Shard& shard : shards) {
      auto& source =
          sources.emplace_back(static_cast<std::size_t>(shard.region.num_elements()) * 8);
      copy_region(shard.region, 8, box, whole, shard.region, source);
    }
    for (const auto& result : run(random, setting, plan, sources)) ASSERT_EQ(result, whole);
  }
}

TEST(Collective, AGroupThatDoesNotFitIsRefused) {
  const Topology topology = Topology::dense({2});
  const DeviceId a(0), b(1);
  const Region box({{0, 8}});
  EXPECT_THAT([&] { plan_all_reduce(DType::kF32, box, {}, topology); },
              test::throws_error(ErrorCode::kInvalidArgument, "all_reduce: the group is empty"));
  EXPECT_THAT(
      [&] {
        plan_all_reduce(DType::kF32, box, {a, a}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "device 0 appears twice in the group"));
  EXPECT_THAT(
      [&] {
        plan_all_reduce(DType::kU8, box, {a, b}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "u8 cannot be reduced"));
  EXPECT_THAT(
      [&] {
        plan_all_reduce(DType::kF32, box, {a, DeviceId(7)}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "device 7 is not in the topology"));
  EXPECT_THAT(
      [&] {
        plan_all_gather(DType::kF32, box, {{a, Region({{0, 4}})}, {b, Region({{5, 8}})}}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "have 7 of the 8 elements"))
      << "a hole";
  EXPECT_THAT(
      [&] {
        plan_all_gather(DType::kF32, box, {{a, Region({{0, 5}})}, {b, Region({{4, 8}})}}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "overlap"))
      << "an overlap";
  EXPECT_THAT(
      [&] {
        plan_reduce_scatter(DType::kF32, box, {{a, Region({{0, 9}})}}, topology);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "outside the box"))
      << "outside";
}

}  // namespace
}  // namespace weft::transfer
