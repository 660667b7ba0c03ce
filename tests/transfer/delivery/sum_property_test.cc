// Tests that engines execute sums along chains of devices (FlowKind::kSum).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/support/engine_cluster.h"
#include "tests/support/sum_case.h"

namespace weft::transfer {
namespace {

using test::EngineCluster;
using test::SumCase;

/// Makes the participants of a plan for one sum.
std::map<DeviceId, std::unique_ptr<test::Participant>> participants_of(const ReshardPlan& plan,
                                                                       const SumCase& sums) {
  std::map<DeviceId, std::unique_ptr<test::Participant>> result;
  for (const DeviceId device : plan.devices())
    result.emplace(device, std::make_unique<test::Participant>(
                               plan.device_part(device),
                               std::vector<std::vector<std::byte>>{sums.source(device)}));
  return result;
}

ChunkOptions small_chunks(std::mt19937_64& random) {
  return {64u << (random() % 4), 64u << (random() % 4),
          1 + static_cast<std::uint32_t>(random() % 3)};
}

Topology any_topology(std::mt19937_64& random, std::size_t least_devices) {
  std::vector<int> devices;
  for (std::size_t sum = 0; sum < least_devices || random() % 2 == 0; sum += devices.back())
    devices.push_back(1 + static_cast<int>(random() % 4));
  return Topology::dense(devices);
}

/// Runs the plan on a wire that delays and reorders. Devices start in random order.
void execute(std::mt19937_64& random, const SumCase& sums, const ReshardPlan& plan,
             EngineOptions::Checksum checksum) {
  LoopbackOptions wire;
  wire.eager_bytes = std::array<std::size_t, 3>{0, 100, 4096}[random() % 3];
  if (random() % 4 != 0) wire.shuffle_seed = random();
  EngineOptions options;
  options.checksum = checksum;
  const auto participants = participants_of(plan, sums);
  EngineCluster cluster(sums.topology, wire, options);
  std::vector<DeviceId> starts = plan.devices();
  std::shuffle(starts.begin(), starts.end(), random);
  for (const DeviceId device : starts) {
    participants.at(device)->start(*cluster.engines[device.value()], {1, 2, 3, 4});
    if (random() % 2 == 0) cluster.poll();
  }
  ASSERT_TRUE(cluster.poll_until([&] {
    return std::ranges::all_of(participants,
                               [](const auto& each) { return each.second->report.has_value(); });
  })) << "transfers are stuck";
  for (const auto& [device, participant] : participants) {
    SCOPED_TRACE(fmt::format("device {}", device));
    ASSERT_TRUE(participant->report->outcome.ok())
        << participant->report->outcome.error().describe();
    EXPECT_EQ(participant->report->bytes_received, participant->part.bytes_received());
    EXPECT_EQ(participant->report->bytes_sent, participant->part.bytes_sent());
    EXPECT_EQ(participant->source(), sums.source(device)) << "a source was written to";
    if (const Region* region = sums.task.destination.region_of(device)) {
      ASSERT_EQ(participant->destination(), sums.expected(*region));
    }
  }
}

TEST(SumProperty, EveryDestinationGetsTheLeftFoldBitByBitOverAReorderingWire) {
  const std::uint64_t seed = 17;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300 / WEFT_FEWER_ROUNDS; ++round) {
    const std::size_t terms = std::array{1, 2, 3, 5, 8}[random() % 5];
    Shape shape(1 + random() % 3);
    for (std::int64_t& extent : shape) extent = 1 + static_cast<std::int64_t>(random() % 13);
    const SumCase sums = test::random_sum(random, any_topology(random, terms), terms, shape);
    const ReshardAlgorithm strategy = kStrategies[random() % kStrategies.size()];
    const ReshardPlan plan = plan_reshard(sums.task, sums.topology, strategy, small_chunks(random));
    SCOPED_TRACE(fmt::format("seed {} round {}: {}", seed, round, to_string(plan)));
    ASSERT_EQ(decode<ReshardPlan>(encode(plan)), plan);
    execute(random, sums, plan,
            random() % 2 == 0 ? EngineOptions::Checksum::kVerify : EngineOptions::Checksum::kOff);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(SumProperty, TheDestinationMayBeAnyDeviceOfTheChainOrNone) {
  std::mt19937_64 random(4);
  for (const std::uint32_t terms : {2u, 3u, 8u}) {
    for (std::uint32_t wanting = 0; wanting <= terms; ++wanting) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        SCOPED_TRACE(fmt::format("{} terms to device {}", terms, wanting));
        const Topology topology = Topology::dense(std::vector<int>(terms + 1, 1));
        // The last chunk of 5,003 elements is partial.
        const SumCase sums = test::whole_sum(random, topology, terms, {dtype, {5003}}, {wanting});
        const ReshardPlan plan =
            plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft, {1024, 1024, 2});
        execute(random, sums, plan, EngineOptions::Checksum::kVerify);
      }
    }
  }
}

TEST(SumProperty, AHopStagesWindowsOfChunksWhateverTheTensor) {
  std::mt19937_64 random(5);
  const Topology topology = Topology::dense({1, 1, 1, 1});
  const SumCase sums = test::whole_sum(random, topology, 3, {DType::kF32, {64 * 1024}}, {3});
  const ReshardPlan plan =
      plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft, {1024, 1024, 2});
  const auto participants = participants_of(plan, sums);
  EngineCluster cluster(topology);
  for (const auto& [device, participant] : participants)
    participant->start(*cluster.engines[device.value()], {1, 1, 1, 1});
  ASSERT_TRUE(cluster.poll_until([&] {
    return std::ranges::all_of(participants,
                               [](const auto& each) { return each.second->report.has_value(); });
  }));
  EXPECT_EQ(participants.at(DeviceId(3))->destination(), sums.sum);
  for (const std::uint32_t hop : {1u, 2u})
    EXPECT_LE(cluster.engines[hop]->counters().peak_staging_bytes, 4 * 1024u);
}

TEST(SumProperty, APeersDeathEndsTheSumOnAllWithItsName) {
  for (const std::uint32_t dies : {0u, 1u, 2u, 3u}) {
    SCOPED_TRACE(dies);
    std::mt19937_64 random(dies);
    const Topology topology = Topology::dense({1, 1, 1, 1});
    const SumCase sums = test::whole_sum(random, topology, 4, {DType::kF32, {64 * 1024}}, {0});
    const ReshardPlan plan =
        plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft, {1024, 1024, 2});
    const auto participants = participants_of(plan, sums);
    LoopbackOptions wire;
    wire.eager_bytes = 256;
    EngineCluster cluster(topology, wire);
    for (const auto& [device, participant] : participants)
      participant->start(*cluster.engines[device.value()], {1, 1, 1, 1});
    for (int i = 0; i < 10; ++i) cluster.poll();
    cluster.hub.kill(DeviceId(dies));
    ASSERT_TRUE(cluster.poll_until([&] {
      return std::ranges::all_of(participants, [&](const auto& each) {
        return each.first == DeviceId(dies) || each.second->report.has_value();
      });
    }));
    for (const auto& [device, participant] : participants) {
      if (device == DeviceId(dies)) continue;
      ASSERT_FALSE(participant->report->outcome.ok()) << "the death came too late to matter";
      const Error& error = participant->report->outcome.error();
      EXPECT_EQ(error.code(), ErrorCode::kPeerDied);
      EXPECT_NE(error.message().find(fmt::format("device {0} (host {0})", dies)), std::string::npos)
          << error.message();
    }
  }
}

TEST(SumProperty, APartThatContradictsItselfIsRefused) {
  std::mt19937_64 random(6);
  const Topology topology = Topology::dense({1, 1, 1});
  const SumCase sums = test::whole_sum(random, topology, 3, {DType::kF32, {64}}, {2});
  const ReshardPlan plan = plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft);
  const auto refused = [&](const std::string& why, auto change) {
    EngineCluster cluster(topology);
    auto participants = participants_of(plan, sums);
    test::Participant& last = *participants.at(DeviceId(2));
    change(last.part);
    last.source().resize(last.part.tensors[0].source_bytes());
    last.destination().resize(last.part.tensors[0].destination_bytes());
    last.start(*cluster.engines[2], {1, 1, 1, 1});
    ASSERT_TRUE(cluster.poll_until([&] { return last.report.has_value(); }));
    ASSERT_FALSE(last.report->outcome.ok());
    EXPECT_EQ(last.report->outcome.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(last.report->outcome.error().message().find(why), std::string::npos)
        << last.report->outcome.error().message();
  };
  refused("u8 cannot be summed", [](DevicePart& part) { part.tensors[0].dtype = DType::kU8; });
  refused("inside an element", [](DevicePart& part) { part.streams[0].chunk_bytes = 6; });
  refused("the flow have different sizes", [](DevicePart& part) { part.streams[0].bytes -= 4; });
  refused("no segments", [](DevicePart& part) { part.streams[0].segments.clear(); });
  refused("holds nothing", [](DevicePart& part) { part.tensors[0].source.reset(); });
}

TEST(SumProperty, SourceAndDestinationInOneMemoryAreRefused) {
  std::mt19937_64 random(7);
  const Topology topology = Topology::dense({1, 1});
  const SumCase sums = test::whole_sum(random, topology, 2, {DType::kF32, {64}}, {1});
  const ReshardPlan plan = plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft);
  const DevicePart part = plan.device_part(DeviceId(1));
  EngineCluster cluster(topology);
  std::vector<std::byte> memory = sums.source(DeviceId(1));
  const std::vector<std::span<const std::byte>> from = {memory};
  const std::vector<std::span<std::byte>> to = {memory};
  std::optional<TransferReport> report;
  cluster.engines[1]->start(part, {1, 1, 1, 1}, from, to, {},
                            [&](const TransferReport& result) { report = result; });
  ASSERT_TRUE(cluster.poll_until([&] { return report.has_value(); }));
  ASSERT_FALSE(report->outcome.ok());
  EXPECT_EQ(report->outcome.error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace weft::transfer
