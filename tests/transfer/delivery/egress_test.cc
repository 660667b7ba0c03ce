// Tests limits on concurrent streams over the network: no transfer starves, whatever the plans and
// the order of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/engine_cluster.h"
#include "tests/support/random_flows.h"

namespace weft::transfer {
namespace {

TEST(Egress, AnyPlansEndWithOneOrTwoStreamsAtATime) {
  const std::uint64_t seed = 17;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const Topology topology =
        Topology::dense(std::vector<int>(2 + random() % 4, 1 + static_cast<int>(random() % 2)));
    LoopbackOptions wire;
    wire.hosts = topology;
    wire.eager_bytes = std::array<std::size_t, 3>{0, 100, 4096}[random() % 3];
    if (random() % 4 != 0) wire.shuffle_seed = random();
    EngineOptions engines;
    engines.egress.device_streams = 1 + random() % 2;
    std::vector<ReshardPlan> plans;
    std::vector<std::map<DeviceId, std::unique_ptr<test::Participant>>> transfers;
    for (int i = 0; i < 3; ++i) {
      plans.push_back(
          test::random_plan(random, test::random_tasks(random, topology.num_devices()), topology));
      transfers.push_back(test::participants_of(plans.back()));
    }
    test::EngineCluster cluster(topology, wire, engines);
    std::vector<std::pair<std::size_t, DeviceId>> starts;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      for (const auto& [device, participant] : transfers[i]) starts.emplace_back(i, device);
    }
    std::shuffle(starts.begin(), starts.end(), random);  // a different order on each device
    for (const auto& [i, device] : starts) {
      transfers[i].at(device)->start(*cluster.engines[device.value()],
                                     {1, 1, static_cast<std::uint32_t>(i), 1});
      for (std::uint64_t polls = random() % 6; polls > 0; --polls) cluster.poll();
    }
    ASSERT_TRUE(cluster.poll_until([&] {
      return std::all_of(starts.begin(), starts.end(), [&](const auto& start) {
        return transfers[start.first].at(start.second)->report.has_value();
      });
    })) << "transfers are stuck";
    for (const auto& [i, device] : starts) {
      const test::Participant& participant = *transfers[i].at(device);
      ASSERT_TRUE(participant.report->outcome.ok())
          << participant.report->outcome.error().describe();
      test::expect_delivered(participant, plans[i]);
    }
    for (std::uint32_t device = 0; device < cluster.engines.size(); ++device) {
      std::size_t most = engines.egress.device_streams;
      for (const ReshardPlan& plan : plans)
        most = std::max<std::size_t>(most, plan.device_part(DeviceId(device)).egress_slots);
      ASSERT_LE(cluster.engines[device]->counters().peak_network_streams, most);
    }
    ASSERT_FALSE(HasFailure());
  }
}

/// Sends 64 KiB from device 0 to device 1 on another host.
class EgressOfOne : public ::testing::Test {
 protected:
  static EngineOptions one_stream() {
    EngineOptions options;
    options.egress.device_streams = 1;
    return options;
  }
  static LoopbackOptions rendezvous() {
    LoopbackOptions options;
    options.hosts = Topology::dense({1, 1});
    options.eager_bytes = 64;  // chunks stay at their sender, notes do not
    return options;
  }
  static ReshardPlan plan() {
    const Shape shape = {16 * 1024};
    const Region whole = Region::whole(shape);
    return plan_reshard(
        {{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, {shape, {{DeviceId(1), whole}}}},
        Topology::dense({1, 1}), ReshardAlgorithm::kSendRecv, {1024, 1024, 2});
  }
  void start(int transfer, std::uint32_t device, const TransferLimits& limits = {}) {
    transfers[transfer]
        .at(DeviceId(device))
        ->start(*cluster.engines[device], {1, 1, static_cast<std::uint32_t>(transfer), 1}, limits);
  }
  bool ended(int transfer) {
    const auto& participants = transfers[transfer];
    return std::all_of(participants.begin(), participants.end(),
                       [](const auto& p) { return p.second->report.has_value(); });
  }

  std::array<std::map<DeviceId, std::unique_ptr<test::Participant>>, 2> transfers = {
      test::participants_of(plan()), test::participants_of(plan())};
  test::EngineCluster cluster =
      test::EngineCluster(Topology::dense({1, 1}), rendezvous(), one_stream());
};

TEST_F(EgressOfOne, ATransferThatItsReceiverHasNotStartedHoldsNoPlace) {
  start(0, 0);
  start(1, 0);
  start(1, 1);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1); }))
      << "the one place is held by a transfer that cannot move";
  EXPECT_FALSE(ended(0));
  start(0, 1);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); }));
  EXPECT_EQ(cluster.engines[0]->counters().peak_network_streams, 1u);
}

TEST_F(EgressOfOne, ATransferThatYieldsLetsLaterOnesEndFirst) {
  for (const int transfer : {0, 1}) {
    start(transfer, 1);
    start(transfer, 0, {.low_priority = transfer == 0});
  }
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1); }));
  EXPECT_FALSE(ended(0));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); })) << "and it comes to its end";
}

TEST_F(EgressOfOne, TheTransferStartedFirstEndsFirst) {
  for (const int transfer : {0, 1}) {
    start(transfer, 1);
    start(transfer, 0);
  }
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); }));
  EXPECT_FALSE(ended(1));
  EXPECT_LT(cluster.engines[0]->counters().bytes_sent(Path::kTcp), (64u << 10) + (4u << 10))
      << "the second has hardly begun";
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1); }));
}

}  // namespace
}  // namespace weft::transfer
