#include "transfer/flow/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"
#include "tests/support/played_flows.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

constexpr double kRate = 1e8;  // bytes per second
constexpr std::uint64_t kSize = 100'000'000;
constexpr std::uint64_t kChunk = 125'000;

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Flow flow(std::uint32_t id, const Edges& edges, std::uint64_t bytes = kSize) {
  Flow flow;
  flow.id = FlowId(id);
  flow.root = DeviceId(edges.front().first);
  for (const auto& [parent, child] : edges)
    flow.edges.push_back({DeviceId(parent), DeviceId(child)});
  flow.bytes = bytes;
  flow.chunk_bytes = std::min(kChunk, bytes);
  flow.window = 2;
  return flow;
}

/// Makes a topology of one device per host.
Topology one_each(int hosts) { return Topology::dense(std::vector<int>(hosts, 1)); }

Network network_of(int hosts, double hop = 0) {
  Network network = Network::uniform(hosts, kRate);
  network.hop_seconds = hop;
  return network;
}

double seconds(const std::vector<Flow>& flows, int hosts) {
  return simulate(flows, one_each(hosts), network_of(hosts)).seconds;
}

Edges chain(std::uint32_t hosts) {
  Edges edges;
  for (std::uint32_t i = 0; i + 1 < hosts; ++i) edges.push_back({i, i + 1});
  return edges;
}

TEST(Simulate, OneHopTakesSizeOverRate) { EXPECT_NEAR(seconds({flow(0, {{0, 1}})}, 2), 1.0, 1e-6); }

TEST(Simulate, AStarTakesOneTimePerReceiver) {
  EXPECT_NEAR(seconds({flow(0, {{0, 1}, {0, 2}, {0, 3}})}, 4), 3.0, 1e-6)
      << "one stream with three children";
  EXPECT_NEAR(seconds({flow(0, {{0, 1}}), flow(1, {{0, 2}}), flow(2, {{0, 3}})}, 4), 3.0, 1e-6)
      << "three streams";
}

TEST(Simulate, AChainAddsOneWindowAndOneLatencyPerHop) {
  for (const std::uint32_t hosts : {3u, 4u, 8u, 32u}) {
    const double fill = (hosts - 2) * static_cast<double>(kChunk) / kSize;
    EXPECT_NEAR(seconds({flow(0, chain(hosts))}, static_cast<int>(hosts)), 1.0 + fill, 1e-6)
        << hosts;
    const FlowSimulation late =
        simulate(std::vector{flow(0, chain(hosts))}, one_each(hosts), network_of(hosts, 1e-3));
    EXPECT_NEAR(late.seconds, 1.0 + fill + (hosts - 1) * 1e-3, 1e-6) << hosts;
  }
}

TEST(Simulate, AMessageOfOneWindowIsStoredAndForwarded) {
  EXPECT_NEAR(seconds({flow(0, chain(4), 2 * kChunk)}, 4), 4 * static_cast<double>(kChunk) / kRate,
              1e-9);
}

TEST(Simulate, FlowsThatShareALinkShareItFairly) {
  const FlowSimulation ingress = simulate(
      std::vector{flow(0, {{0, 2}}), flow(1, {{1, 2}}, kSize / 2)}, one_each(3), network_of(3));
  EXPECT_NEAR(ingress.flow_seconds[1], 1.0, 1e-6);
  EXPECT_NEAR(ingress.flow_seconds[0], 1.5, 1e-6);
  // 0 -> 2 and 1 -> 2 share host 2. 1 -> 3 uses the rest of host 1's egress, but only half the
  // time.
  const FlowSimulation corner =
      simulate(std::vector{flow(0, {{0, 2}}), flow(1, {{1, 2}}), flow(2, {{1, 3}})}, one_each(4),
               network_of(4));
  EXPECT_NEAR(corner.seconds, 2.0, 1e-6);
}

TEST(Simulate, AHostSendsTwoStreamsAtATimeLowerIdsFirst) {
  const std::vector<Flow> flows = {flow(0, {{0, 1}}), flow(1, {{0, 2}}), flow(2, {{0, 3}})};
  const FlowSimulation two = simulate(flows, one_each(4), network_of(4));
  EXPECT_NEAR(two.flow_seconds[0], 2.0, 1e-6);
  EXPECT_NEAR(two.flow_seconds[1], 2.0, 1e-6);
  EXPECT_NEAR(two.flow_seconds[2], 3.0, 1e-6);
  const FlowSimulation one = simulate(flows, one_each(4), network_of(4), {.egress = {1, 1}});
  EXPECT_NEAR(one.flow_seconds[0], 1.0, 1e-6);
  EXPECT_NEAR(one.flow_seconds[1], 2.0, 1e-6);
  // Devices of a host share its link. Each has at least one slot.
  const FlowSimulation devices =
      simulate(std::vector{flow(0, {{0, 3}}), flow(1, {{1, 4}}), flow(2, {{2, 5}})},
               Topology::dense({3, 1, 1, 1}), network_of(4));
  for (const double finish : devices.flow_seconds) EXPECT_NEAR(finish, 3.0, 1e-6);
}

TEST(Simulate, ASlowHostDelaysOnlyFlowsThroughIt) {
  // Measured on shaped links: 2.82 s with the slow host in the middle, 1.16 s with it last.
  Network network = network_of(8);
  network.hosts[4].nics[0].egress = 0.4 * kRate;
  const FlowSimulation middle = simulate(std::vector{flow(0, chain(8))}, one_each(8), network);
  EXPECT_NEAR(middle.seconds, 2.5, 0.03);
  const FlowSimulation last =
      simulate(std::vector{flow(0, {{0, 1}, {1, 2}, {2, 3}, {3, 5}, {5, 6}, {6, 7}, {7, 4}})},
               one_each(8), network);
  EXPECT_NEAR(last.seconds, 1.0, 0.02);
  // The fast half of a tree does not wait for the slow half.
  const FlowSimulation tree =
      simulate(std::vector{flow(0, {{0, 4}, {4, 1}}), flow(1, {{2, 3}})}, one_each(8), network);
  EXPECT_NEAR(tree.flow_seconds[0], 2.5, 0.02);
  EXPECT_NEAR(tree.flow_seconds[1], 1.0, 1e-6);
}

TEST(Simulate, LinksInsideAHostAreFree) {
  EXPECT_EQ(simulate(std::vector{flow(0, {{0, 1}})}, Topology::dense({2}), network_of(1)).seconds,
            0);
  // 0 -> 1 and 2 -> 3 are inside hosts. 1 -> 2 and 3 -> 4 go to the next host.
  const FlowSimulation mixed = simulate(std::vector{flow(0, {{0, 1}, {1, 2}, {2, 3}, {3, 4}})},
                                        Topology::dense({2, 2, 1}), network_of(3));
  EXPECT_NEAR(mixed.seconds, 1.0 + static_cast<double>(kChunk) / static_cast<double>(kSize), 1e-6);
}

TEST(Simulate, TwoInterleavedTreesRunAtFullRateInLogarithmicDepth) {
  // Device 0 sends half of the bytes into each tree. A relay of one tree is a leaf of the other.
  const std::vector<Flow> flows = {
      flow(0, {{0, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}, {3, 6}}, kSize / 2),
      flow(1, {{0, 4}, {4, 5}, {4, 6}, {5, 1}, {5, 2}, {6, 3}}, kSize / 2)};
  EXPECT_NEAR(seconds(flows, 7), 1.0, 0.02);
}

TEST(Simulate, ACoarseResolutionIsNearTheExactAnswer) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 30; ++round) {
    std::vector<Flow> flows;
    for (std::uint32_t i = 0; i < 40; ++i) {
      std::vector<std::uint32_t> hosts(8);
      for (std::uint32_t h = 0; h < 8; ++h) hosts[h] = h;
      std::shuffle(hosts.begin(), hosts.end(), random);
      Edges edges;
      const std::size_t count = 1 + random() % 7;
      for (std::size_t j = 0; j < count; ++j)
        edges.push_back({hosts[random() % (j + 1)], hosts[j + 1]});
      flows.push_back(flow(i, edges, kSize / 4 + random() % kSize));
    }
    const FlowSimulation exact = simulate(flows, one_each(8), network_of(8));
    const FlowSimulation coarse =
        simulate(flows, one_each(8), network_of(8), {.resolution_seconds = exact.seconds / 1000});
    EXPECT_NEAR(coarse.seconds, exact.seconds, exact.seconds * 0.1) << "round " << round;
    double busiest = 0;
    for (std::size_t h = 0; h < 8; ++h)
      busiest = std::max({busiest, exact.egress_bytes[h], exact.ingress_bytes[h]});
    EXPECT_GE(exact.seconds, busiest / kRate * (1 - 1e-9)) << "no link is faster than it is";
  }
}

TEST(Simulate, FlowsWithoutRelaysTakeAsLongAsThePlayerSays) {
  std::mt19937_64 random(20261123);
  for (int round = 0; round < 100; ++round) {
    const Topology topology = Topology::dense({2, 1, 3, 1, 2});
    Network network = network_of(5, 1e-3 * (random() % 3));
    for (Network::HostLinks& host : network.hosts) {
      host.nics[0].egress *= 0.25 * (1 + random() % 4);
      host.nics[0].ingress *= 0.25 * (1 + random() % 4);
    }
    std::vector<std::uint32_t> places;
    for (std::size_t i = 0; i < topology.num_devices(); ++i)
      places.push_back(static_cast<std::uint32_t>(1 + random() % 3));
    std::vector<Flow> flows;
    for (std::uint32_t i = 0; i < 60; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % topology.num_devices());
      const auto apart = static_cast<std::uint32_t>(1 + random() % (topology.num_devices() - 1));
      const std::uint32_t to = (from + apart) % topology.num_devices();
      flows.push_back(flow(i, {{from, to}}, 1000 + random() % kSize));
    }
    const FlowSimulation fluid = simulate(flows, topology, network, {.send_slots = places});
    const test::PlayedFlows played = test::play_flows(flows, topology, network, places);
    for (std::size_t i = 0; i < flows.size(); ++i)
      EXPECT_NEAR(fluid.flow_seconds[i], played.flow_seconds[i], 1e-6) << round << ", flow " << i;
  }
}

TEST(Simulate, ANetworkSmallerThanTheTopologyIsRefused) {
  EXPECT_THAT(
      [&] {
        simulate(std::vector{flow(0, {{0, 1}})}, one_each(2), network_of(1));
      },
      test::throws_error(ErrorCode::kInvalidArgument, "the network has 1 hosts, the topology 2"));
  EXPECT_EQ(simulate({}, one_each(2), network_of(2)).seconds, 0);
}

}  // namespace
}  // namespace weft::transfer
