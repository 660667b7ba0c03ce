// Tests plans of tasks with addends: chains, limits and refused tasks.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/base/error.h"
#include "tests/support/plan_check.h"
#include "tests/support/sum_case.h"
#include "tests/support/thrown_error.h"
#include "transfer/reshard/plan.h"
#include "transfer/reshard/plan_cache.h"
#include "transfer/reshard/plan_stats.h"
#include "transfer/reshard/repair.h"
#include "transfer/reshard/slices.h"

namespace weft::transfer {
namespace {

/// Makes a sum of vectors of `elements`. Each list has the devices that hold a whole term.
ReshardTask sum_of(const std::vector<std::vector<std::uint32_t>>& terms,
                   const std::vector<std::uint32_t>& wanting, std::int64_t elements = 1 << 20) {
  const auto map_of = [&](const std::vector<std::uint32_t>& devices) {
    ShardMap map{{elements}, {}};
    for (const std::uint32_t device : devices)
      map.shards.push_back({DeviceId(device), Region({{0, elements}})});
    return map;
  };
  ReshardTask task{{DType::kF32, {elements}}, map_of(terms[0]), map_of(wanting), {}};
  for (std::size_t i = 1; i < terms.size(); ++i) task.addends.push_back(map_of(terms[i]));
  return task;
}

std::string edges_of(const Flow& flow) {
  std::string text;
  for (const FlowEdge& edge : flow.edges)
    text += fmt::format("{}{}->{}", text.empty() ? "" : " ", edge.parent, edge.child);
  return text;
}

/// Makes links of 1 MB/s without latency.
Network links(const Topology& topology) { return Network::uniform(topology.num_hosts(), 1e6); }

ReshardPlan plan(const ReshardTask& task, const Topology& topology) {
  return plan_reshard(task, topology, links(topology), ReshardAlgorithm::kWeft);
}

TEST(SumPlan, AChainVisitsTheTermsInTheirOrderAndTheLastOneSendsTheSum) {
  const Topology topology = Topology::dense({1, 1, 1, 1});
  const ReshardPlan made = plan(sum_of({{2}, {0}, {1}}, {3}), topology);
  ASSERT_EQ(made.flows.size(), 2u);
  EXPECT_EQ(made.flows[0].kind, FlowKind::kSum);
  EXPECT_EQ(made.flows[0].root, DeviceId(2));
  EXPECT_EQ(edges_of(made.flows[0]), "2->0 0->1");
  EXPECT_EQ(made.flows[1].kind, FlowKind::kResult);
  EXPECT_EQ(made.flows[1].root, DeviceId(1));
  EXPECT_EQ(edges_of(made.flows[1]), "1->3");
  EXPECT_EQ(made.flows[0].chunk_bytes, made.flows[1].chunk_bytes);
  const DevicePart last = made.device_part(DeviceId(1));
  ASSERT_EQ(last.streams.size(), 1u) << "the sum goes on where it comes to be";
  EXPECT_EQ(last.streams[0].result, FlowId(1));
  EXPECT_FALSE(last.streams[0].stores_sum);
  EXPECT_EQ(last.streams[0].children, std::vector<DeviceId>{DeviceId(3)});
  EXPECT_EQ(last.bytes_sent(), made.tasks[0].type.bytes());
  EXPECT_EQ(to_string(last),
            "device 1 f32 from [0:1048576]\n  flow 0 [0:1048576] 4 MiB from 0 to 3 (adds its term) "
            "as flow 1");
}

TEST(SumPlan, TheLastTermsHolderKeepsTheSumAndSendsItToNobodyElse) {
  const Topology topology = Topology::dense({1, 1, 1});
  const ReshardPlan made = plan(sum_of({{0}, {1}, {2}}, {2}), topology);
  ASSERT_EQ(made.flows.size(), 1u);
  EXPECT_EQ(edges_of(made.flows[0]), "0->1 1->2");
  EXPECT_TRUE(made.device_part(DeviceId(2)).streams[0].stores_sum);
  EXPECT_FALSE(made.device_part(DeviceId(1)).streams[0].stores_sum);
}

TEST(SumPlan, TheFirstTermsHolderGetsTheSumBack) {
  const Topology topology = Topology::dense({1, 1, 1});
  const ReshardPlan made = plan(sum_of({{0}, {1}, {2}}, {0, 1}), topology);
  ASSERT_EQ(made.flows.size(), 2u);
  EXPECT_EQ(edges_of(made.flows[0]), "0->1 1->2");
  EXPECT_EQ(made.flows[1].root, DeviceId(2));
  std::set<DeviceId> reached;
  for (const FlowEdge& edge : made.flows[1].edges) reached.insert(edge.child);
  EXPECT_EQ(reached, (std::set<DeviceId>{DeviceId(0), DeviceId(1)}));
  EXPECT_EQ(made.device_part(DeviceId(0)).streams.size(), 2u);
}

TEST(SumPlan, TermsOfOneHostAreAddedInsideItAndReplicasAreTakenWhereTheChainIs) {
  const Topology topology = Topology::dense({3, 3, 1});
  // Terms 0 to 2 have a replica on host 0, some only there. Terms 3 and 4 are on host 1.
  const ReshardPlan made = plan(sum_of({{0}, {3, 1}, {2}, {4}, {5}}, {6}), topology);
  EXPECT_EQ(edges_of(made.flows[0]), "0->1 1->2 2->4 4->5");
  EXPECT_EQ(plan_stats(made).bytes_between_hosts, 2 * made.tasks[0].type.bytes());
}

TEST(SumPlan, SeveralWantingDevicesOfAHostGetTheSumOverItsLinkOnce) {
  const Topology topology = Topology::dense({1, 1, 2, 2});
  const ReshardPlan made = plan(sum_of({{0}, {1}}, {2, 3, 4, 5}), topology);
  const std::uint64_t bytes = made.tasks[0].type.bytes();
  EXPECT_EQ(plan_stats(made).bytes_between_hosts, 3 * bytes);
  EXPECT_EQ(made.minimum_between_hosts, 3 * bytes);
}

TEST(SumPlan, TheLimitIsThatOfTheMirroredBroadcast) {
  for (const std::uint32_t terms : {2u, 4u, 8u}) {
    const Topology topology = Topology::dense(std::vector<int>(terms + 1, 1));
    std::vector<std::vector<std::uint32_t>> holders;
    ReshardTask broadcast = sum_of({{terms}}, {0});
    broadcast.destination.shards.clear();
    Network network = links(topology), mirrored = network;
    for (std::uint32_t i = 0; i < terms; ++i) {
      holders.push_back({i});
      broadcast.destination.shards.push_back({DeviceId(i), Region({{0, 1 << 20}})});
    }
    // An asymmetric host makes the directions differ.
    network.hosts[0].nics[0] = {0.5e6, 2e6};
    mirrored.hosts[0].nics[0] = {2e6, 0.5e6};
    const ReshardPlan sum =
        plan_reshard(sum_of(holders, {terms}), topology, network, ReshardAlgorithm::kWeft);
    const ReshardPlan mirror = plan_reshard(broadcast, topology, mirrored, ReshardAlgorithm::kWeft);
    EXPECT_DOUBLE_EQ(sum.limit.seconds, mirror.limit.seconds);
    EXPECT_EQ(sum.limit.bound, LimitingResource::kEgress) << "host 0 must send its term";
    EXPECT_EQ(mirror.limit.bound, LimitingResource::kIngress);
    EXPECT_EQ(sum.minimum_between_hosts, mirror.minimum_between_hosts);
    EXPECT_GE(sum.predicted_seconds, sum.limit.seconds);
    EXPECT_LE(sum.predicted_seconds, 1.05 * sum.limit.seconds);
  }
}

TEST(SumPlan, NoLinkCarriesATensorTwiceUnlessTheSumGoesToTheMiddleOfTheChain) {
  for (std::uint32_t wanting = 0; wanting <= 4; ++wanting) {
    SCOPED_TRACE(wanting);
    const Topology topology = Topology::dense({1, 1, 1, 1, 1});
    const ReshardPlan made = plan(sum_of({{0}, {1}, {2}, {3}}, {wanting}), topology);
    const PlanStats stats = plan_stats(made);
    EXPECT_EQ(stats.busiest_host_egress, made.tasks[0].type.bytes());
    EXPECT_GE(stats.bytes_between_hosts, stats.minimum_between_hosts);
    // A device in the middle receives the partial sum and, later, the sum.
    const bool middle = wanting == 1 || wanting == 2;
    EXPECT_EQ(stats.busiest_host_ingress, (middle ? 2 : 1) * made.tasks[0].type.bytes());
    EXPECT_GE(made.limit.seconds / made.predicted_seconds, middle ? 0.48 : 0.95);
  }
}

TEST(SumPlan, AllStrategiesPlanASumAlikeAndOtherTensorsAsTheyDo) {
  const Topology topology = Topology::dense({1, 1, 1});
  std::vector<ReshardTask> tasks = {sum_of({{0}}, {1, 2}), sum_of({{0}, {1}}, {1})};
  for (const ReshardAlgorithm strategy : kStrategies) {
    const ReshardPlan both = plan_reshard(tasks, topology, links(topology), strategy);
    const ReshardPlan alone = plan_reshard(tasks[0], topology, links(topology), strategy);
    ASSERT_EQ(both.flows.size(), alone.flows.size() + 1);
    EXPECT_TRUE(std::equal(alone.flows.begin(), alone.flows.end(), both.flows.begin()));
    EXPECT_EQ(edges_of(both.flows.back()), "0->1");
    EXPECT_GE(both.limit.seconds, alone.limit.seconds);
  }
}

TEST(SumPlan, TensorsOfOneTypeWithOneChainTravelTogether) {
  const Topology topology = Topology::dense({1, 1, 1});
  std::vector<ReshardTask> tasks(3, sum_of({{0}, {1}}, {1}, 1000));
  tasks[2].type.dtype = DType::kBF16;
  const ReshardPlan made =
      plan_reshard(tasks, topology, links(topology), ReshardAlgorithm::kWeft, PlanOptions());
  ASSERT_EQ(made.flows.size(), 2u);
  EXPECT_EQ(made.flows[0].segments.size(), 2u);
  EXPECT_EQ(made.flows[1].bytes, 2000u);
}

TEST(SumPlan, EveryElementIsAddedOnceOfEachTermAndDeliveredOnce) {
  const std::uint64_t seed = 3;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const std::size_t terms = 2 + random() % 4;
    const Topology topology = Topology::dense({3, 2, 4});
    const test::SumCase sums = test::random_sum(random, topology, terms, {5, 4, 3});
    const ReshardPlan made =
        plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft, {64, 64, 2});
    std::map<DeviceId, test::ByteCounts> got, wanted;
    for (std::size_t i = 0; i < made.flows.size(); ++i) {
      const Flow& flow = made.flows[i];
      test::ByteCounts bytes;
      for (const Segment& segment : flow.segments) test::count_segment(made, segment, bytes);
      if (flow.kind == FlowKind::kResult) {
        ASSERT_EQ(made.flows[i - 1].kind, FlowKind::kSum);
        ASSERT_EQ(flow.root, made.flows[i - 1].edges.back().child);
        ASSERT_EQ(flow.segments, made.flows[i - 1].segments);
        for (const FlowEdge& edge : flow.edges)
          for (const auto& [byte, count] : bytes) got[edge.child][byte] += count;
        continue;
      }
      ASSERT_EQ(flow.edges.size() + 1, terms);
      DeviceId at = flow.root;
      for (std::size_t term = 0; term < terms; ++term) {
        if (term > 0) {
          ASSERT_EQ(flow.edges[term - 1].parent, at);
          at = flow.edges[term - 1].child;
        }
        const Region* held = sums.term(term).region_of(at);
        ASSERT_NE(held, nullptr) << "term " << term << " of flow " << to_string(flow);
        for (const Segment& segment : flow.segments) ASSERT_TRUE(held->contains(segment.region));
      }
      const DevicePart last = made.device_part(at);
      const auto stream = std::ranges::find(last.streams, flow.id, &FlowRole::flow);
      if (stream->stores_sum)
        for (const auto& [byte, count] : bytes) got[at][byte] += count;
    }
    for (const Shard& shard : sums.task.destination.shards)
      test::count_region(made, 0, shard.region, wanted[shard.device]);
    ASSERT_EQ(got, wanted) << to_string(made);
    ASSERT_GE(plan_stats(made).bytes_between_hosts, made.minimum_between_hosts);
  }
}

TEST(SumPlan, InconsistentSumsAreRefused) {
  const Topology topology = Topology::dense({1, 1, 1});
  const auto expect_refused = [&](const std::string& words, const ReshardTask& task) {
    EXPECT_THAT([&] { plan(task, topology); },
                test::throws_error(ErrorCode::kInvalidArgument, words));
  };
  ReshardTask task = sum_of({{0}, {1}}, {2}, 8);
  task.type.dtype = DType::kU8;
  expect_refused("u8", task);
  expect_refused("device 0 holds terms 0 and 2", sum_of({{0}, {1}, {0}}, {2}, 8));
  task = sum_of({{0}, {1}}, {2}, 8);
  task.addends[0].shards[0].region = Region({{0, 4}});
  expect_refused("term 1 of a sum holds only 4 of the 8", task);
  task.addends[0].shards[0].device = DeviceId(9);
  expect_refused("9", task);
  task = sum_of({{0}, {1}}, {2}, 8);
  task.addends[0].shape = {9};
  expect_refused("[9]", task);
  task.addends[0] = {{8}, {}};
  expect_refused("no device", task);
}

TEST(SumPlan, APlanWithSumsIsNotRepairedAndIsCachedByItsAddends) {
  const Topology topology = Topology::dense({1, 1, 1});
  const ReshardTask first = sum_of({{0}, {1}}, {2}), second = sum_of({{0}}, {2});
  EXPECT_THAT(
      [&] { Repair(plan(first, topology)); },
      test::throws_error(ErrorCode::kInvalidArgument, "a plan with sums cannot be repaired"));
  PlanCache cache(4);
  for (const ReshardTask& task : {first, second, first, second})
    cache.plan(std::span(&task, 1), topology, links(topology), ReshardAlgorithm::kWeft);
  EXPECT_EQ(cache.hits(), 2u);
  EXPECT_EQ(cache.misses(), 2u);
}

}  // namespace
}  // namespace weft::transfer
