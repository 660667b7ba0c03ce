#include "mesh/program/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh/program/simulate_programs.h"
#include "transfer/reshard/plan.h"

namespace weft::mesh {
namespace {

using transfer::DeviceId;
using transfer::ReshardAlgorithm;

/// Rate of each link in bytes per second.
constexpr double kRate = 1 << 20;

const transfer::Topology& topology() {
  static const transfer::Topology result = transfer::Topology::dense({2, 2});
  return result;
}

/// Plans a reshard between two hosts. Devices 0 and 1 each have the whole float tensor of `rows`
/// rows of 1 KiB; devices 2 and 3 receive it.
transfer::ReshardPlan plan(std::int64_t rows, ReshardAlgorithm strategy) {
  const Shape shape{rows, 256};
  const Region whole = Region::whole(shape);
  const auto on = [&](std::uint32_t first, std::uint32_t second) {
    return transfer::ShardMap{shape, {{DeviceId(first), whole}, {DeviceId(second), whole}}};
  };
  return transfer::plan_reshard({{DType::kF32, shape}, on(0, 1), on(2, 3)}, topology(),
                                transfer::Network::uniform(2, kRate), strategy);
}

/// Makes each device's program: `times` transfers of the plan, one after the other.
std::vector<Program> programs(const transfer::ReshardPlan& plan, std::uint32_t times) {
  std::vector<Program> result(topology().num_devices());
  for (std::uint32_t d = 0; d < result.size(); ++d) {
    result[d].device = DeviceId(d);
    result[d].device_name = "device";
    result[d].instructions.emplace_back(Run{});
    result[d].num_handles = times;
    for (std::uint32_t i = 0; i < times; ++i) {
      result[d].transfers.push_back(
          {"x", TransferPurpose::kReshard, i, plan.device_part(DeviceId(d))});
      result[d].instructions.emplace_back(Start{i, 0, -1, -1, i});
      result[d].instructions.emplace_back(Wait{i});
    }
  }
  return result;
}

/// Returns the end time of each device if its first instruction takes `busy` seconds.
std::vector<double> ends(const std::vector<Program>& programs, const std::vector<double>& busy) {
  InstructionSeconds seconds;
  for (std::size_t d = 0; d < programs.size(); ++d) {
    seconds.emplace_back(programs[d].instructions.size(), 0);
    seconds.back().front() = busy[d];
  }
  return simulate_programs(programs, seconds,
                           traffic_of(programs, topology(), transfer::Network::uniform(2, kRate)))
      .end;
}

TEST(Traffic, ASumAndItsWayToAnotherDeviceAreOneMovement) {
  const Shape shape{512, 256};
  const Region whole = Region::whole(shape);
  const auto on = [&](std::uint32_t device) {
    return transfer::ShardMap{shape, {{DeviceId(device), whole}}};
  };
  const transfer::Network network = transfer::Network::uniform(2, kRate);
  // The flow moves within host 0, to host 1 and back.
  const transfer::ReshardPlan sum =
      transfer::plan_reshard({{DType::kF32, shape}, on(0), on(0), {on(1), on(2)}}, topology(),
                             network, ReshardAlgorithm::kWeft);
  const std::vector<Program> all = programs(sum, 1);
  const Traffic traffic = traffic_of(all, topology(), network);
  ASSERT_EQ(traffic.movements.at(0).size(), 1U);
  const Traffic::FlowMovement& movement = traffic.movements.at(0).front();
  EXPECT_EQ(movement.devices, (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(2)}));
  EXPECT_EQ(movement.bytes, 512 * 1024);
  EXPECT_EQ(movement.crossings.size(), 4U) << "each link in both directions";
  EXPECT_NEAR(busiest_link_seconds(all, topology(), network), 0.5, 1e-9);
}

TEST(Traffic, AReceiverInsideAHostFollowsTheDeviceThatForwardsToIt) {
  for (const ReshardAlgorithm strategy :
       {ReshardAlgorithm::kLocalAllgather, ReshardAlgorithm::kBroadcast}) {
    const std::vector<Program> all = programs(plan(512, strategy), 1);
    const Traffic traffic = traffic_of(all, topology(), transfer::Network::uniform(2, kRate));
    double bytes = 0;
    for (const Traffic::FlowMovement& movement : traffic.movements.at(0)) {
      ASSERT_EQ(movement.devices.size(), 2U) << transfer::to_string(strategy);
      const DeviceId sender = movement.queue.value().device, receiver = movement.devices.back();
      EXPECT_EQ(movement.devices.front(), sender);
      EXPECT_LT(sender, DeviceId(2));
      EXPECT_GE(receiver, DeviceId(2));
      ASSERT_EQ(movement.behind.size(), 1U);
      EXPECT_EQ(movement.behind.front().from, receiver);
      EXPECT_EQ(movement.behind.front().device, DeviceId(receiver == DeviceId(2) ? 3 : 2));
      EXPECT_GT(movement.eager_chunk, 0);
      bytes += movement.bytes;
    }
    EXPECT_EQ(bytes, 512 * 1024);
  }
}

TEST(Traffic, ADeviceHasThePlacesThatThePlanOfATransferNames) {
  transfer::ReshardPlan made = plan(512, ReshardAlgorithm::kLocalAllgather);
  const auto places_of = [&](std::uint32_t device) {
    const Traffic traffic =
        traffic_of(programs(made, 1), topology(), transfer::Network::uniform(2, kRate));
    for (const Traffic::FlowMovement& movement : traffic.movements.at(0))
      if (movement.queue.value().device == DeviceId(device)) return movement.queue->places;
    ADD_FAILURE() << device << " sends nothing";
    return std::size_t{0};
  };
  EXPECT_EQ(places_of(0), 0U);
  made.egress_slots = {3, 1, 2, 2};
  EXPECT_EQ(places_of(0), 3U);
  EXPECT_EQ(places_of(1), 1U);
}

TEST(Traffic, ASenderIsDoneBeforeItsReceiverWantsWhatThatPassesOn) {
  const auto at = [](double end) { return testing::DoubleNear(end, 0.01); };
  // Each sender sends half of the 512 KiB, both over one link. Devices 2 and 3 are busy for 9
  // seconds.
  EXPECT_THAT(ends(programs(plan(512, ReshardAlgorithm::kLocalAllgather), 1), {0, 0, 9, 9}),
              testing::ElementsAre(testing::Lt(0.6), testing::Lt(0.6), at(9), at(9)));
  // Device 0 sends everything. The eager budget has room for the first MiB, not for the second.
  EXPECT_THAT(ends(programs(plan(1024, ReshardAlgorithm::kBroadcast), 1), {0, 0, 9, 9}),
              testing::ElementsAre(at(1), at(0), at(9), at(9)));
  EXPECT_THAT(ends(programs(plan(1024, ReshardAlgorithm::kBroadcast), 2), {0, 0, 9, 9}),
              testing::ElementsAre(at(10), at(0), at(10), at(10)));
}

TEST(Traffic, TheBusiestLinkIsBusyForWhatEveryTransferSendsThroughIt) {
  const transfer::Network network = transfer::Network::uniform(2, kRate);
  // A copy of 512 KiB crosses the link once under broadcast and twice under send_recv. Each
  // transfer starts three times.
  EXPECT_DOUBLE_EQ(busiest_link_seconds(programs(plan(512, ReshardAlgorithm::kBroadcast), 3),
                                        topology(), network),
                   1.5);
  EXPECT_DOUBLE_EQ(busiest_link_seconds(programs(plan(512, ReshardAlgorithm::kSendRecv), 3),
                                        topology(), network),
                   3);
  transfer::Network slow_receiver = network;
  slow_receiver.hosts[1].nics[0].ingress = kRate / 4;
  EXPECT_DOUBLE_EQ(busiest_link_seconds(programs(plan(512, ReshardAlgorithm::kBroadcast), 1),
                                        topology(), slow_receiver),
                   2);
}

}  // namespace
}  // namespace weft::mesh
