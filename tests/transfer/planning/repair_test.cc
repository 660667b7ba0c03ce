#include "transfer/reshard/repair.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/base/error.h"
#include "tests/support/plan_check.h"
#include "tests/support/random_sharding.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

using test::ByteCounts;

ShardMap whole_on(const Shape& shape, std::initializer_list<std::uint32_t> devices) {
  ShardMap map{shape, {}};
  for (const std::uint32_t device : devices)
    map.shards.push_back({DeviceId(device), Region::whole(shape)});
  return map;
}

/// Marks the first `chunks` chunks of a flow as landed.
LandedChunks first_chunks(const Flow& flow, std::uint32_t chunks) {
  LandedChunks landed =
      LandedChunks::none(flow.id, (flow.bytes + flow.chunk_bytes - 1) / flow.chunk_bytes);
  for (std::uint32_t i = 0; i < chunks; ++i) landed.set(i);
  return landed;
}

TEST(Repair, AKilledRelayCostsOnlyWhatIsMissingAndReceiversHelp) {
  // A chain 0 -> 1 -> 2 -> 3. Device 1 dies when devices 1, 2 and 3 have 8, 6 and 4 of 10 chunks.
  const Shape shape = {640};
  const Topology topology = Topology::dense({1, 1, 1, 1});
  const ReshardPlan plan =
      plan_reshard({{DType::kF32, shape}, whole_on(shape, {0}), whole_on(shape, {1, 2, 3})},
                   topology, ReshardAlgorithm::kBroadcastNaive, ChunkOptions{256, 256, 2});
  ASSERT_EQ(plan.flows.size(), 1u);
  const std::vector<LandedReport> landed = {{DeviceId(2), {first_chunks(plan.flows[0], 6)}},
                                            {DeviceId(3), {first_chunks(plan.flows[0], 4)}}};
  const std::vector<DeviceId> dead = {DeviceId(1)};
  const Network network = Network::uniform(4, 1e8);
  Repair repair(plan);
  repair.add(plan, landed);
  EXPECT_EQ(repair.missing_bytes(dead), 4u * 256 + 6u * 256);
  const ReshardPlan second = repair.plan(dead, network);
  std::uint64_t sent = 0;
  for (const Flow& flow : second.flows) {
    for (const FlowEdge& edge : flow.edges) {
      EXPECT_NE(edge.parent, DeviceId(1));
      EXPECT_NE(edge.child, DeviceId(1));
      sent += flow.bytes;
    }
  }
  EXPECT_EQ(sent, 10u * 256) << to_string(second);
  EXPECT_EQ(second.tasks.size(), 2u);
  EXPECT_NE(to_string(second).find("repair"), std::string::npos);
  // The source dies as well. Device 2 helps device 3, but the last chunks are lost.
  EXPECT_THAT(
      [&] {
        repair.plan(std::vector{DeviceId(0), DeviceId(1)}, network);
      },
      test::throws_error(ErrorCode::kDataLoss, "all devices that held them have died"));
}

TEST(Repair, DataThatAllReceiversHaveNeedsNoFlow) {
  const Shape shape = {64};
  const ReshardPlan plan =
      plan_reshard({{DType::kF32, shape}, whole_on(shape, {0}), whole_on(shape, {1, 2})},
                   Topology::dense({1, 1, 1}), ReshardAlgorithm::kWeft);
  std::vector<LandedReport> landed;
  for (const std::uint32_t device : {1u, 2u})
    landed.push_back({DeviceId(device), {first_chunks(plan.flows[0], 1)}});
  const ReshardPlan second =
      plan_repair(plan, landed, std::vector{DeviceId(0)}, Network::uniform(3, 1e8));
  EXPECT_TRUE(second.flows.empty());
  EXPECT_EQ(second.limit.seconds, 0);
}

TEST(Repair, AReportOfAnotherPlanIsRefused) {
  const Shape shape = {64};
  const ReshardPlan plan =
      plan_reshard({{DType::kF32, shape}, whole_on(shape, {0}), whole_on(shape, {1})},
                   Topology::dense({1, 1}), ReshardAlgorithm::kWeft);
  Repair repair(plan);
  EXPECT_THAT(
      [&] {
        repair.add(plan,
                   std::vector<LandedReport>{{DeviceId(1), {LandedChunks::none(FlowId(0), 7)}}});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "device 1 reports 7 chunks of flow 0"));
  EXPECT_THAT(
      [&] {
        repair.add(plan,
                   std::vector<LandedReport>{{DeviceId(1), {LandedChunks::none(FlowId(9), 1)}}});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "reports 1 chunks of flow 9, which has 0"));
}

/// Doubles the counts of the first n tensors, as tensors t and n + t of a repair.
ByteCounts twice(const ByteCounts& counts, std::uint32_t n) {
  ByteCounts result;
  for (const auto& [byte, count] : counts) {
    for (const std::uint32_t tensor : {byte.first % n, byte.first % n + n})
      result[{tensor, byte.second}] = 1;
  }
  return result;
}

/// Random plans, landed chunks and deaths, several times in a row. After the last repair, each live
/// device has all that it wants.
TEST(RepairProperty, EveryLiveDeviceEndsWithEveryByteFromADeviceThatHasIt) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  int repaired = 0, lost = 0;
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    std::vector<int> hosts(2 + random() % 4);
    for (int& devices : hosts) devices = 1 + static_cast<int>(random() % 3);
    const Topology topology = Topology::dense(hosts);
    std::vector<ReshardTask> tasks(1 + random() % 3);
    for (ReshardTask& task : tasks) {
      const DType dtype = std::array{DType::kF32, DType::kF64, DType::kU8}[random() % 3];
      Shape shape = test::random_shape(random, 3);
      shape.push_back(16 + static_cast<std::int64_t>(random() % 48));
      task = {{dtype, shape},
              test::random_sharding(random, shape, topology.num_devices()).map(shape),
              test::random_sharding(random, shape, topology.num_devices()).map(shape)};
    }
    const std::uint32_t n = tasks.size();
    const Network network = Network::uniform(hosts.size(), 1e8);
    PlanOptions options;
    options.chunks = ChunkOptions{64, 128, 2};
    ReshardPlan plan =
        plan_reshard(tasks, topology, network, kStrategies[random() % kStrategies.size()], options);
    Repair repair(plan);
    std::map<DeviceId, ByteCounts> has, wants;
    for (std::uint32_t t = 0; t < n; ++t) {
      for (const Shard& shard : tasks[t].source.shards)
        test::count_region(plan, t, shard.region, has[shard.device]);
      for (const Shard& shard : tasks[t].destination.shards)
        test::count_region(plan, t, shard.region, wants[shard.device]);
    }
    for (const LocalCopy& copy : plan.copies)
      test::count_region(plan, copy.tensor, copy.region, has[copy.device]);
    std::vector<DeviceId> dead;
    for (int failure = 0; failure < 3; ++failure) {
      // Some chunks land. A relay has at least the chunks of its children.
      std::vector<LandedReport> landed;
      for (const DeviceId device : plan.devices()) landed.push_back({device, {}});
      for (const Flow& flow : plan.flows) {
        const std::uint32_t chunks = (flow.bytes + flow.chunk_bytes - 1) / flow.chunk_bytes;
        std::map<DeviceId, LandedChunks> of = {{flow.root, first_chunks(flow, chunks)}};
        for (const FlowEdge& edge : flow.edges) {
          LandedChunks mine = LandedChunks::none(flow.id, chunks);
          for (std::uint32_t c = 0; c < chunks; ++c) {
            if (of.at(edge.parent).has(c) && random() % 4 != 0) mine.set(c);
          }
          for (std::uint32_t c = 0; c < chunks; ++c) {
            if (!mine.has(c)) continue;
            const std::uint64_t begin = c * flow.chunk_bytes,
                                bytes = std::min(flow.chunk_bytes, flow.bytes - begin);
            std::uint64_t at = 0;
            for (const Segment& segment : flow.segments) {
              const std::uint64_t from = std::max(begin, at),
                                  to = std::min(begin + bytes, at + segment.bytes);
              if (from < to) {
                Segment part = segment;
                part.tensor %= n;
                part.begin += from - at;
                part.bytes = to - from;
                test::count_segment(plan, part, has[edge.child]);
              }
              at += segment.bytes;
            }
          }
          of.emplace(edge.child, mine);
          for (LandedReport& report : landed) {
            if (report.device == edge.child) report.flows.push_back(mine);
          }
        }
      }
      std::erase_if(landed, [&](const LandedReport&) { return random() % 8 == 0; });
      const DeviceId victim(static_cast<std::uint32_t>(random() % topology.num_devices()));
      if (std::find(dead.begin(), dead.end(), victim) == dead.end()) dead.push_back(victim);
      repair.add(plan, landed);
      // A device whose report was lost may have more than is known.
      std::map<DeviceId, ByteCounts> held;
      for (const auto& [device, bytes] : has) held[device] = twice(bytes, n);
      ReshardPlan next;
      try {
        next = repair.plan(dead, network, options);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kDataLoss);
        ++lost;
        break;
      }
      ++repaired;
      std::map<DeviceId, ByteCounts> delivered;
      for (const Flow& flow : next.flows) {
        ByteCounts payload;
        for (const Segment& segment : flow.segments) test::count_segment(next, segment, payload);
        for (const auto& [byte, count] : payload) {
          ASSERT_EQ(count, 1);
          ASSERT_TRUE(held[flow.root].contains(byte)) << "the root has it: " << to_string(flow);
        }
        ASSERT_EQ(std::count(dead.begin(), dead.end(), flow.root), 0);
        std::set<DeviceId> reached = {flow.root};
        for (const FlowEdge& edge : flow.edges) {
          ASSERT_EQ(std::count(dead.begin(), dead.end(), edge.child), 0);
          ASSERT_TRUE(reached.contains(edge.parent));
          ASSERT_TRUE(reached.insert(edge.child).second);
          for (const auto& [byte, count] : payload)
            ++delivered[edge.child][{byte.first % n, byte.second}];
        }
      }
      for (const auto& [device, bytes] : wants) {
        if (std::count(dead.begin(), dead.end(), device) != 0) continue;
        for (const auto& [byte, count] : bytes) {
          const bool comes = delivered[device].contains(byte);
          ASSERT_TRUE(comes || has[device].contains(byte)) << "device " << device.value();
          ASSERT_TRUE(!comes || delivered[device][byte] == 1);
        }
      }
      plan = std::move(next);
    }
  }
  EXPECT_GT(repaired, 60);
  EXPECT_GT(lost, 15);
}

}  // namespace
}  // namespace weft::transfer
