// Tests flows of many segments and tensors along random trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/engine_cluster.h"
#include "tests/support/random_flows.h"

namespace weft::transfer {
namespace {

TEST(Segments, AnyFlowsDeliverAllTensorsOverAReorderingWire) {
  const std::uint64_t seed = 11;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const Topology topology =
        Topology::dense(std::vector<int>(2 + random() % 4, 1 + static_cast<int>(random() % 2)));
    const ReshardPlan plan =
        test::random_plan(random, test::random_tasks(random, topology.num_devices()), topology);
    LoopbackOptions wire;
    wire.eager_bytes = std::array<std::size_t, 3>{0, 100, 4096}[random() % 3];
    if (random() % 4 != 0) wire.shuffle_seed = random();
    // Outlives the engines, which may still use its buffers.
    auto participants = test::participants_of(plan);
    test::EngineCluster cluster(topology, wire);
    std::vector<DeviceId> order;
    for (const auto& [device, participant] : participants) order.push_back(device);
    std::shuffle(order.begin(), order.end(), random);
    for (const DeviceId device : order) {
      participants.at(device)->start(*cluster.engines[device.value()], {1, 1, 1, 1});
      if (random() % 2 == 0) cluster.poll();
    }
    ASSERT_TRUE(cluster.poll_until([&] {
      return std::all_of(participants.begin(), participants.end(),
                         [](const auto& p) { return p.second->report.has_value(); });
    })) << to_string(plan);
    for (const auto& [device, participant] : participants) {
      ASSERT_TRUE(participant->report->outcome.ok())
          << participant->report->outcome.error().describe();
      test::expect_delivered(*participant, plan);
    }
    ASSERT_FALSE(HasFailure()) << to_string(plan);
    ASSERT_EQ(decode<ReshardPlan>(encode(plan)), plan);
  }
}

TEST(Segments, AFlowOfBytesThatADeviceHasNotGotIsRefused) {
  const Shape shape = {16};
  const Region whole = Region::whole(shape);
  const Topology topology = Topology::dense({1, 1});
  const ReshardPlan sound = plan_reshard(
      {{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, {shape, {{DeviceId(1), whole}}}},
      topology, ReshardAlgorithm::kBroadcast);
  const auto refused = [&](const Segment& segment) {
    ReshardPlan plan = sound;
    plan.flows.front().segments = {segment};
    auto participants = test::participants_of(plan);
    test::EngineCluster cluster(topology);
    test::Participant& root = *participants.at(DeviceId(0));
    root.start(*cluster.engines[0], {1, 1, 1, 1});
    ASSERT_TRUE(cluster.poll_until([&] { return root.report.has_value(); }));
    EXPECT_EQ(root.report->outcome.error().code(), ErrorCode::kInvalidArgument)
        << to_string(segment);
  };
  refused({1, whole, 0, 64});              // unknown tensor
  refused({0, Region({{0, 17}}), 0, 64});  // outside the box
  refused({0, whole, 32, 64});             // past the region's end
  refused({0, Region({{0, 8}}), 0, 32});   // fewer bytes than the flow
}

}  // namespace
}  // namespace weft::transfer
