// Tests what survivors of a death have received, and that they can still communicate.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/engine_cluster.h"
#include "tests/support/random_sharding.h"

namespace weft::transfer {
namespace {

using test::EngineCluster;
using test::Participant;
using Participants = std::map<DeviceId, std::unique_ptr<Participant>>;

ReshardPlan one_to(const Topology& topology, std::uint32_t from, std::vector<std::uint32_t> to) {
  const Shape shape = {16 * 1024};
  const Region whole = Region::whole(shape);
  ShardMap receivers{shape, {}};
  for (const std::uint32_t device : to) receivers.shards.push_back({DeviceId(device), whole});
  return plan_reshard({{DType::kF32, shape}, {shape, {{DeviceId(from), whole}}}, receivers},
                      topology, ReshardAlgorithm::kBroadcast, {1024, 1024, 2});
}

/// Returns the payload of a flow of one tensor from a buffer.
std::vector<std::byte> payload_in(std::span<const std::byte> buffer, const Region& box,
                                  const Flow& flow, std::size_t element) {
  std::vector<std::byte> payload;
  for (const Segment& segment : flow.segments) {
    std::vector<std::byte> dense(segment.region.num_elements() * element);
    copy_region(segment.region, element, box, buffer, segment.region, dense);
    const auto begin = dense.begin() + segment.begin;
    payload.insert(payload.end(), begin, begin + segment.bytes);
  }
  return payload;
}

TEST(Survivors, ReportWhatHasLandedAndKeepTheirConnections) {
  const std::uint64_t seed = 23;
  std::mt19937_64 random(seed);
  std::size_t partial = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<int> devices_per_host(2 + random() % 3);
    for (int& devices : devices_per_host) devices = 1 + static_cast<int>(random() % 2);
    const Topology topology = Topology::dense(devices_per_host);
    const Shape shape = {8 + static_cast<std::int64_t>(random() % 40),
                         8 + static_cast<std::int64_t>(random() % 20)};
    const auto source = test::random_sharding(random, shape, topology.num_devices());
    const auto destination = test::random_sharding(random, shape, topology.num_devices());
    SCOPED_TRACE(fmt::format("seed {} round {}: {} from {} to {}", seed, round,
                             weft::to_string(shape), source.describe(), destination.describe()));
    const ReshardPlan plan =
        plan_reshard({{DType::kF32, shape}, source.map(shape), destination.map(shape)}, topology,
                     kStrategies[random() % kStrategies.size()], {64, 64, 2});
    LoopbackOptions wire;
    wire.hosts = topology;
    wire.eager_bytes = std::array<std::size_t, 2>{48, 4096}[random() % 2];
    if (random() % 2 == 0) wire.shuffle_seed = random();
    Participants participants = test::participants_of(plan);
    std::vector<Participants> later;
    EngineCluster cluster(topology, wire);
    const DeviceId dead(static_cast<std::uint32_t>(random() % topology.num_devices()));
    std::vector<DeviceId> order;
    for (const auto& [device, participant] : participants) order.push_back(device);
    std::shuffle(order.begin(), order.end(), random);
    // Devices may start after the death.
    const std::size_t death = random() % 2 == 0 ? order.size() : random() % order.size();
    for (std::size_t i = 0; i <= order.size(); ++i) {
      if (i == death) {
        for (std::uint64_t polls = random() % 12; polls > 0; --polls) cluster.poll();
        cluster.hub.kill(dead);
      }
      if (i == order.size() || (order[i] == dead && i >= death)) continue;
      participants.at(order[i])->start(*cluster.engines[order[i].value()], {1, 1, 1, 1});
      for (std::uint64_t polls = random() % 4; polls > 0; --polls) cluster.poll();
    }
    const auto all_ended = [&](const Participants& some) {
      return std::all_of(some.begin(), some.end(), [&](const auto& p) {
        return p.first == dead || p.second->report.has_value();
      });
    };
    ASSERT_TRUE(cluster.poll_until([&] { return all_ended(participants); }))
        << "a survivor hangs: " << to_string(plan);
    for (const auto& [device, participant] : participants) {
      if (device == dead) continue;
      const TensorPart& tensor = participant->part.tensors.front();
      if (participant->report->outcome.ok()) {
        test::expect_delivered(*participant, plan);
        continue;
      }
      for (const LandedChunks& landed : participant->report->landed) {
        const Flow& flow = plan.flows.at(landed.flow.value());
        const auto there = payload_in(participant->destination(), *tensor.destination, flow, 4);
        const auto expected = payload_in(test::box_of_indices(*tensor.destination, shape, 4),
                                         *tensor.destination, flow, 4);
        partial += landed.count() > 0 && !landed.complete() ? 1 : 0;
        for (std::uint32_t chunk = 0; chunk < landed.num_chunks; ++chunk) {
          if (!landed.has(chunk)) continue;
          const std::ptrdiff_t begin = chunk * flow.chunk_bytes;
          const std::ptrdiff_t end =
              std::min<std::uint64_t>((chunk + 1) * flow.chunk_bytes, flow.bytes);
          ASSERT_TRUE(
              std::equal(there.begin() + begin, there.begin() + end, expected.begin() + begin))
              << "chunk " << chunk << " of " << to_string(flow) << " at device " << device.value();
        }
      }
    }
    ASSERT_FALSE(HasFailure());
    // Connections among survivors are not cut. Each can send to each without connecting again.
    std::vector<std::uint32_t> alive;
    for (std::uint32_t device = 0; device < topology.num_devices(); ++device) {
      if (DeviceId(device) != dead) alive.push_back(device);
    }
    for (std::uint32_t op = 0; op < alive.size() && alive.size() > 1; ++op) {
      std::vector<std::uint32_t> others = alive;
      std::erase(others, alive[op]);
      later.push_back(test::participants_of(one_to(topology, alive[op], others)));
      for (const auto& [device, participant] : later.back())
        participant->start(*cluster.engines[device.value()], {1, 2, op, 1});
    }
    ASSERT_TRUE(
        cluster.poll_until([&] { return std::all_of(later.begin(), later.end(), all_ended); }));
    for (const Participants& some : later) {
      for (const auto& [device, participant] : some)
        ASSERT_TRUE(participant->report->outcome.ok())
            << participant->report->outcome.error().describe();
    }
  }
  EXPECT_GT(partial, 50u) << "the test must see flows that landed in part";
}

class Watchdog : public ::testing::Test {
 protected:
  static LoopbackOptions rendezvous() {
    LoopbackOptions options;
    options.eager_bytes = 256;
    return options;
  }
  void settle() {
    cluster.poll_until([] { return false; });
  }
  Participants participants = test::participants_of(one_to(Topology::dense({1, 1, 1}), 0, {1, 2}));
  EngineCluster cluster = EngineCluster(Topology::dense({1, 1, 1}), rendezvous());
};

TEST_F(Watchdog, ATransferThatDoesNotMoveEndsLongBeforeItsDeadlineAndSaysWhatItWaitsFor) {
  const TransferLimits limits{std::chrono::hours(1), std::chrono::seconds(2)};
  for (const std::uint32_t device : {0u, 1u})
    participants.at(DeviceId(device))->start(*cluster.engines[device], {1, 1, 1, 1}, limits);
  for (int i = 0; i < 3; ++i) {
    settle();
    cluster.clock.advance(std::chrono::milliseconds(800));
  }
  ASSERT_TRUE(cluster.poll_until([&] { return participants.at(DeviceId(1))->report.has_value(); }));
  const Error& error = participants.at(DeviceId(1))->report->outcome.error();
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(error.message().find("made no progress for 2 s"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("device 2 (host 2)"), std::string::npos) << error.message();
}

TEST_F(Watchdog, ATransferThatMovesSlowlyIsLeftAlone) {
  const TransferLimits limits{std::chrono::hours(1), std::chrono::seconds(2)};
  for (auto& [device, participant] : participants)
    participant->start(*cluster.engines[device.value()], {1, 1, 1, 1}, limits);
  const auto ended = [&] {
    return std::all_of(participants.begin(), participants.end(),
                       [](const auto& p) { return p.second->report.has_value(); });
  };
  for (int i = 0; i < 200 && !ended(); ++i) {
    cluster.poll();
    cluster.clock.advance(std::chrono::milliseconds(500));
  }
  ASSERT_TRUE(ended());
  for (const auto& [device, participant] : participants)
    EXPECT_TRUE(participant->report->outcome.ok());
}

}  // namespace
}  // namespace weft::transfer
