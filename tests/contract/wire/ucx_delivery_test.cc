// Executes plans by threaded engines over real UCX: tcp between hosts, shared memory within a host.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>

#include "tests/support/cluster_token.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/random_sharding.h"
#include "tests/support/sum_case.h"
#include "transfer/reshard/collective.h"
#include "transfer/wire_ucx/ucx_wire.h"

namespace weft::transfer {
namespace {

constexpr auto kTransferDeadline = std::chrono::seconds(30);

/// Threaded engines in this process, one per device.
class ThreadedCluster {
 public:
  explicit ThreadedCluster(const Topology& topology) {
    for (std::uint32_t i = 0; i < topology.num_devices(); ++i) {
      const DeviceId device(i);
      // Only loopback, as interfaces of test hosts come and go.
      auto wire = make_ucx_wire(device, topology.host_of(device),
                                {.secret = test::cluster_token(), .interfaces = "lo"});
      engines.push_back(std::make_unique<TransferEngine>(std::move(wire), clock_));
    }
    for (auto& engine : engines) {
      for (auto& other : engines) {
        if (engine != other)
          engine->connect(other->self(), topology.host_of(other->self()), other->address());
      }
    }
  }

  ~ThreadedCluster() { engines.clear(); }

  void start(test::Participant& participant, const TransferId& id) {
    ++started_;
    participant.start(*engines[participant.part.device.value()], id, {kTransferDeadline}, on_end());
  }
  void start(const DevicePart& part, const TransferId& id, std::span<const std::byte> source,
             std::span<std::byte> destination) {
    ++started_;
    engines[part.device.value()]->start(part, id, {&source, 1}, {&destination, 1},
                                        {kTransferDeadline}, on_end());
  }
  std::vector<TransferReport> wait_all() {
    std::unique_lock lock(mutex_);
    // Longer than a transfer's own deadline, so that a stuck transfer reports what it waits for.
    EXPECT_TRUE(
        changed_.wait_for(lock, 2 * kTransferDeadline, [&] { return reports_.size() == started_; }))
        << reports_.size() << " of " << started_;
    started_ = 0;
    return std::exchange(reports_, {});
  }

  /// Destroyed first, as their threads use the members below.
  std::vector<std::unique_ptr<TransferEngine>> engines;

 private:
  TransferEngine::Callback on_end() {
    return [this](const TransferReport& report) {
      const std::scoped_lock lock(mutex_);
      reports_.push_back(report);
      changed_.notify_all();
    };
  }

  SteadyClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TransferReport> reports_;
  std::size_t started_ = 0;
};

TEST(UcxDelivery, EveryStrategyDeliversTheRightBytes) {
  const std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  const Topology topology = Topology::dense({2, 2, 1});
  ThreadedCluster cluster(topology);
  for (std::uint32_t round = 0; round < 20; ++round) {
    const Shape shape = test::random_shape(random, round % 4 == 0 ? 60 : 17);
    const auto source = test::random_sharding(random, shape, topology.num_devices());
    const auto destination = test::random_sharding(random, shape, topology.num_devices());
    SCOPED_TRACE(fmt::format("seed {} round {}: {} from {} to {}", seed, round,
                             weft::to_string(shape), source.describe(), destination.describe()));
    const ReshardTask task{{DType::kF32, shape}, source.map(shape), destination.map(shape)};
    std::vector<ReshardPlan> plans;
    std::vector<std::map<DeviceId, std::unique_ptr<test::Participant>>> transfers;
    for (const ReshardAlgorithm strategy : kStrategies) {
      plans.push_back(plan_reshard(task, topology, strategy,
                                   {64u << (random() % 12), 64u << (random() % 12), 2}));
      transfers.push_back(test::participants_of(plans.back()));
    }
    for (std::uint32_t i = 0; i < transfers.size(); ++i) {
      for (auto& [device, participant] : transfers[i]) {
        cluster.start(*participant, {1, round, i, 0});
      }
    }
    for (const TransferReport& report : cluster.wait_all())
      ASSERT_TRUE(report.outcome.ok()) << report.outcome.error().describe();
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      for (const auto& [device, participant] : transfers[i])
        test::expect_delivered(*participant, plans[i]);
    }
  }
}

TEST(UcxDelivery, ASumIsTheLeftFoldWhereverItGoes) {
  std::mt19937_64 random(8);
  const Topology topology = Topology::dense({2, 2, 1});
  ThreadedCluster cluster(topology);
  std::uint32_t step = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::uint32_t wanting : {0u, 3u, 4u}) {
      const test::SumCase sums =
          test::whole_sum(random, topology, 4, {dtype, {300'007}}, {wanting});
      const ReshardPlan plan = plan_reshard(sums.task, topology, ReshardAlgorithm::kWeft);
      std::vector<std::unique_ptr<test::Participant>> participants;
      ++step;
      for (const DeviceId device : plan.devices()) {
        participants.push_back(std::make_unique<test::Participant>(
            plan.device_part(device), std::vector<std::vector<std::byte>>{sums.source(device)}));
        cluster.start(*participants.back(), {1, step, 0, 0});
      }
      for (const TransferReport& report : cluster.wait_all())
        ASSERT_TRUE(report.outcome.ok()) << report.outcome.error().describe();
      for (const auto& participant : participants) {
        if (participant->part.device == DeviceId(wanting)) {
          EXPECT_TRUE(participant->destination() == sums.sum) << to_string(plan);
        }
      }
    }
  }
}

TEST(UcxDelivery, BytesOfEachPathAreThoseOfThePlan) {
  const Topology topology = Topology::dense({1, 2});
  ThreadedCluster cluster(topology);
  const Shape shape = {512, 1024};
  const Region whole = Region::whole(shape);
  const ReshardTask task{{DType::kF32, shape},
                         {shape, {{DeviceId(0), whole}}},
                         {shape, {{DeviceId(1), whole}, {DeviceId(2), whole}}}};
  auto participants =
      test::participants_of(plan_reshard(task, topology, ReshardAlgorithm::kBroadcast));
  for (auto& [device, participant] : participants) cluster.start(*participant, {1, 1, 1, 1});
  for (const TransferReport& report : cluster.wait_all()) ASSERT_TRUE(report.outcome.ok());
  const std::uint64_t bytes = 512 * 1024 * 4;
  EXPECT_EQ(cluster.engines[0]->counters().bytes_sent(Path::kTcp), bytes) << "once over the wire";
  EXPECT_EQ(cluster.engines[1]->counters().bytes_sent(Path::kSharedMemory), bytes)
      << "then inside the host";
  EXPECT_EQ(cluster.engines[0]->counters().bytes_sent(Path::kSharedMemory), 0u);
  EXPECT_EQ(cluster.engines[2]->counters().bytes_received(Path::kSharedMemory), bytes);
  EXPECT_EQ(cluster.engines[2]->counters().bytes_received(Path::kTcp), 0u);
}

TEST(UcxDelivery, AllReduceGivesEveryRankTheSameBitsEveryTime) {
  std::mt19937_64 random(6);
  const Topology topology = Topology::dense({2, 2});
  ThreadedCluster cluster(topology);
  const std::vector<DeviceId> ranks = {DeviceId(2), DeviceId(0), DeviceId(3), DeviceId(1)};
  for (const std::int64_t count : {1, 1000, 100003, 1000000}) {
    const auto plan = plan_all_reduce(DType::kF32, Region({{0, count}}), ranks, topology);
    std::vector<DevicePart> parts;
    std::vector<std::vector<float>> terms, buffers;
    for (const DeviceId device : ranks) {
      parts.push_back(plan.device_part(device));
      auto& values = terms.emplace_back(static_cast<std::size_t>(count));
      for (float& value : values)
        value =
            std::ldexp(static_cast<float>(random() % 1000), static_cast<int>(random() % 30) - 15);
    }
    std::vector<float> expected = terms[0];
    for (std::size_t rank = 1; rank < 4; ++rank) {
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += terms[rank][i];
    }
    for (std::uint32_t repeat = 0; repeat < 3; ++repeat) {
      buffers = terms;
      for (std::size_t rank = 0; rank < 4; ++rank) {
        cluster.start(parts[rank], {1, static_cast<std::uint64_t>(count), repeat, 0},
                      std::as_bytes(std::span(buffers[rank])),
                      std::as_writable_bytes(std::span(buffers[rank])));
      }
      for (const TransferReport& report : cluster.wait_all())
        ASSERT_TRUE(report.outcome.ok()) << report.outcome.error().describe();
      for (const auto& buffer : buffers)
        ASSERT_EQ(std::memcmp(buffer.data(), expected.data(), expected.size() * 4), 0);
    }
  }
}

TEST(UcxDelivery, AnEngineThatGoesAwayFailsTheTransfersThatNeedItAndOnlyThose) {
  const Topology topology = Topology::dense({1, 1, 1});
  ThreadedCluster cluster(topology);
  const Shape shape = {1 << 20};
  const Region whole = Region::whole(shape);
  const auto plan = [&](std::uint32_t from, std::uint32_t to) {
    return plan_reshard({{DType::kF32, shape},
                         {shape, {{DeviceId(from), whole}}},
                         {shape, {{DeviceId(to), whole}}}},
                        topology, ReshardAlgorithm::kBroadcast);
  };
  auto doomed = test::participants_of(plan(0, 1)), sound = test::participants_of(plan(0, 2));
  // Device 1 never starts its part and is destroyed.
  test::Participant& sender = *doomed.at(DeviceId(0));
  cluster.start(sender, {1, 1, 1, 1});
  cluster.engines[1].reset();
  const auto failed = cluster.wait_all();
  ASSERT_EQ(failed.size(), 1u);
  ASSERT_FALSE(failed[0].outcome.ok());
  EXPECT_EQ(failed[0].outcome.error().code(), ErrorCode::kPeerDied);
  EXPECT_NE(failed[0].outcome.error().message().find("device 1 (host 1)"), std::string::npos)
      << failed[0].outcome.error().message();
  for (auto& [device, participant] : sound) cluster.start(*participant, {1, 1, 2, 1});
  for (const TransferReport& report : cluster.wait_all())
    EXPECT_TRUE(report.outcome.ok()) << report.outcome.error().describe();
}

}  // namespace
}  // namespace weft::transfer
