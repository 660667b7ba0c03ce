// Tests sums along chains of devices (FlowKind::kSum), lowered and executed on fake NCCL
// collectives.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/support/gpu_cluster.h"
#include "tests/support/sum_case.h"

namespace weft::transfer {
namespace {

/// Executes the lowered plan on one fake GPU per device and checks the destinations.
void expect_sums(const test::SumCase& sums, const ReshardPlan& plan,
                 const LoweredTransfer& lowered) {
  ASSERT_EQ(decode<LoweredTransfer>(encode(lowered)), lowered);
  test::GpuOperation operation{{0, -1}, lowered, {}, {}, false};
  for (const DeviceId device : plan.devices()) {
    operation.sources[device].push_back(sums.source(device));
    operation.destinations[device].emplace_back(
        plan.device_part(device).tensors[0].destination_bytes(), std::byte{0xcd});
  }
  const auto sources = operation.sources;
  test::GpuCluster cluster(sums.topology.num_devices());
  cluster.open(1, lowered.groups());
  const auto errors = cluster.on(cluster.all(), [&](std::uint32_t device) {
    const DeviceOperations part = lowered.part(DeviceId(device));
    if (part.empty()) return;
    cluster.gpus[device]->queue.begin({operation.key});
    operation.start(*cluster.gpus[device], DeviceId(device), part);
    cluster.world.run();
  });
  for (const auto& [device, error] : errors)
    FAIL() << "device " << device << ": " << error.describe();
  ASSERT_EQ(cluster.world.stuck(), "");
  ASSERT_EQ(cluster.world.error(), "");
  EXPECT_EQ(operation.sources, sources) << "a source was written to";
  for (const Shard& shard : sums.task.destination.shards) {
    ASSERT_EQ(operation.destinations.at(shard.device)[0], sums.expected(shard.region))
        << "device " << shard.device.value() << "\n"
        << to_string(lowered);
  }
}

TEST(LoweredSum, EveryDestinationGetsTheLeftFoldBitByBit) {
  std::mt19937_64 random(18);
  for (int round = 0; round < 100; ++round) {
    const std::size_t terms = std::array{2, 3, 5, 8}[random() % 4];
    std::vector<int> hosts;
    for (std::size_t sum = 0; sum < terms; sum += static_cast<std::size_t>(hosts.back()))
      hosts.push_back(1 + static_cast<int>(random() % 4));
    Shape shape(1 + random() % 3);
    for (std::int64_t& extent : shape) extent = 1 + static_cast<std::int64_t>(random() % 13);
    const test::SumCase sums = test::random_sum(random, Topology::dense(hosts), terms, shape);
    const ReshardPlan plan = plan_reshard(sums.task, sums.topology, ReshardAlgorithm::kWeft);
    SCOPED_TRACE(fmt::format("round {}: {}", round, to_string(plan)));
    LoweringOptions options;
    options.relay_chunk_bytes = std::uint64_t{7} << (random() % 8);
    expect_sums(sums, plan, lower(plan, options));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(LoweredSum, PiecesFollowEachOtherDownTheChainAndTwoAreStaged) {
  std::mt19937_64 random(19);
  const Topology topology = Topology::dense({1, 1, 1, 1});
  const test::SumCase sums = test::whole_sum(random, topology, 3, {DType::kF32, {4096}}, {3});
  const ReshardPlan plan = plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft);
  LoweringOptions options;
  options.relay_chunk_bytes = 1024;
  const LoweredTransfer lowered = lower(plan, options);
  expect_sums(sums, plan, lowered);
  EXPECT_EQ(lowered.part(DeviceId(0)).staging_bytes, 0u);
  EXPECT_EQ(lowered.part(DeviceId(1)).staging_bytes, 2048u);
  EXPECT_EQ(lowered.part(DeviceId(2)).staging_bytes, 2048u);
  EXPECT_EQ(lowered.part(DeviceId(3)).staging_bytes, 0u);
  // 16 pieces over 3 hops: the last one arrives in round 17.
  const DeviceOperations last = lowered.part(DeviceId(3));
  EXPECT_EQ(std::get<RoundStep>(last.steps.back()).number, 17u);
}

TEST(LoweredSum, NoCommunicatorOfItsOwnIsChosenForAChain) {
  std::mt19937_64 random(20);
  const Topology topology = Topology::dense({1, 1, 1, 1});
  const test::SumCase sums = test::whole_sum(random, topology, 3, {DType::kF32, {4096}}, {0, 3});
  const ReshardPlan plan = plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft);
  const std::vector<ProgramTransfer> transfers = {{0, &plan, 1}};
  const CommunicatorChoice choice = choose_communicators(transfers, 8);
  EXPECT_TRUE(choice.broadcasts.empty());
  expect_sums(sums, plan, lower_program(transfers, choice, {}).at(0));
}

}  // namespace
}  // namespace weft::transfer
