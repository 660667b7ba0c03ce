#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/engine_cluster.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

using test::EngineCluster;
using test::Participant;

/// Makes a chain 0 -> 1 -> 2 with one device per host. Device 1 forwards 64 KiB in chunks of 1 KiB.
ReshardPlan chain_plan(const Topology& topology) {
  const Shape shape = {16 * 1024};
  const Region whole = Region::whole(shape);
  return plan_reshard({{DType::kF32, shape},
                       {shape, {{DeviceId(0), whole}}},
                       {shape, {{DeviceId(1), whole}, {DeviceId(2), whole}}}},
                      topology, ReshardAlgorithm::kBroadcast, {1024, 1024, 2});
}

class EngineFailure : public ::testing::Test {
 protected:
  EngineFailure()
      : participants(test::participants_of(chain_plan(Topology::dense({1, 1, 1})))),
        others(test::participants_of(chain_plan(Topology::dense({1, 1, 1})))),
        cluster(Topology::dense({1, 1, 1}), wire_options()) {}

  static LoopbackOptions wire_options() {
    LoopbackOptions options;
    options.eager_bytes = 256;  // chunks by rendezvous, errors eagerly
    return options;
  }
  Participant& at(std::uint32_t device) { return *participants.at(DeviceId(device)); }
  void start(std::uint32_t device, const TransferId& id = {1, 1, 1, 1}) {
    at(device).start(*cluster.engines[device], id, {std::chrono::seconds(10)});
  }
  bool ended(std::uint32_t device) { return at(device).report.has_value(); }
  const Error& error(std::uint32_t device) { return at(device).report->outcome.error(); }
  void settle() {
    for (int i = 0; i < 20; ++i) cluster.poll();
  }

  // Outlive the engines, which may still use their buffers.
  std::map<DeviceId, std::unique_ptr<Participant>> participants, others;
  EngineCluster cluster;
};

TEST_F(EngineFailure, ATransferThatItsPeersNeverStartEndsAtItsDeadlineAndNamesThem) {
  start(0);
  at(1).start(*cluster.engines[1], {1, 1, 1, 1}, {std::chrono::seconds(5)});
  settle();
  EXPECT_FALSE(ended(0));
  EXPECT_FALSE(ended(1)) << "device 2 takes nothing, so device 1 may not pass on";
  EXPECT_GT(cluster.engines[1]->counters().bytes_received(Path::kLoopback), 0u);
  cluster.clock.advance(std::chrono::seconds(6));
  settle();
  // After the grace period, connections with messages in flight are cut.
  cluster.clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1); }));
  EXPECT_EQ(error(1).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(error(1).message().find("device 2 (host 2)"), std::string::npos) << error(1).message();
  EXPECT_NE(error(1).message().find("within 5 s"), std::string::npos) << error(1).message();
}

TEST_F(EngineFailure, ADeadRootFailsItsReceiverWhichTellsTheNext) {
  start(1);
  start(2);
  settle();
  cluster.hub.kill(DeviceId(0));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1) && ended(2); }));
  EXPECT_EQ(error(1).code(), ErrorCode::kPeerDied);
  EXPECT_NE(error(1).message().find("device 0 (host 0)"), std::string::npos) << error(1).message();
  EXPECT_EQ(error(2).message(), error(1).message()) << "device 2 hears of it from device 1";
  EXPECT_EQ(error(2).node(), "device 1");
}

TEST_F(EngineFailure, AFailureEndsPartsThatStartLater) {
  start(1);
  settle();
  cluster.hub.kill(DeviceId(0));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1); }));
  settle();
  start(2);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(2); }));
  EXPECT_EQ(error(2).message(), error(1).message());
}

TEST_F(EngineFailure, ADeadReceiverFailsItsSenderEvenBeforeItStarts) {
  cluster.hub.kill(DeviceId(1));
  settle();
  start(0);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); }));
  EXPECT_EQ(error(0).code(), ErrorCode::kPeerDied);
}

TEST_F(EngineFailure, APeerWhoseWorkIsDoneMayDieWithoutHarm) {
  for (const std::uint32_t device : {0u, 1u, 2u}) start(device);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); }));
  cluster.hub.kill(DeviceId(0));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1) && ended(2); }));
  EXPECT_TRUE(at(1).report->outcome.ok());
  EXPECT_TRUE(at(2).report->outcome.ok());
}

TEST_F(EngineFailure, CancelEndsEverythingWithTheGivenErrorAndTouchesNoBufferAfterwards) {
  start(0);
  start(1);
  settle();
  const Error stop(ErrorCode::kCancelled, "the user asked to stop");
  cluster.engines[0]->cancel_all(stop);
  cluster.engines[1]->cancel_all(stop);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1); }));
  EXPECT_EQ(error(0), stop);
  EXPECT_EQ(error(1), stop);
  const auto before = at(1).destination();
  start(2);
  settle();
  EXPECT_EQ(at(1).destination(), before);
}

TEST_F(EngineFailure, AStepThatIsCancelledEndsOnItsDevicesAndAnotherOfTheSameConnectionsGoesOn) {
  const auto start_other = [&](std::uint32_t device) {
    others.at(DeviceId(device))->start(*cluster.engines[device], {1, 2, 1, 1});
  };
  for (const std::uint32_t device : {0u, 1u}) {
    start(device);
    start_other(device);
  }
  settle();
  const Error stop(ErrorCode::kCancelled, "a checkpoint was given up");
  cluster.engines[0]->cancel(1, 1, stop);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1); }));
  EXPECT_EQ(error(0), stop);
  EXPECT_EQ(error(1).message(), stop.message());
  EXPECT_EQ(error(1).node(), "device 0");
  start(2);
  start_other(2);
  ASSERT_TRUE(cluster.poll_until([&] {
    return ended(2) && std::ranges::all_of(others, [](const auto& other) {
             return other.second->report.has_value();
           });
  }));
  EXPECT_EQ(error(2).message(), stop.message()) << "who starts later hears of it, too";
  for (const auto& [device, other] : others)
    EXPECT_TRUE(other->report->outcome.ok()) << "device " << device.value();
  EXPECT_EQ(others.at(DeviceId(2))->destination(), others.at(DeviceId(0))->source());
}

TEST_F(EngineFailure, CancellingAStepThatHasNotBegunNotifiesItsSenders) {
  start(0);
  start(1);
  settle();
  cluster.engines[2]->cancel(1, 1, Error(ErrorCode::kCancelled, "the step was given up here"));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1); }));
  EXPECT_EQ(error(1).message(), "the step was given up here");
  EXPECT_EQ(error(1).node(), "device 2");
}

TEST_F(EngineFailure, AfterACancelANewEpochRunsOverNewConnections) {
  start(0);
  start(1);
  settle();
  for (auto& engine : cluster.engines) engine->cancel_all(Error(ErrorCode::kCancelled, "stop"));
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1); }));
  settle();
  for (auto& engine : cluster.engines) {
    for (auto& other : cluster.engines) {
      if (engine != other)
        engine->connect(other->self(), cluster.topology.host_of(other->self()), other->address());
    }
  }
  participants = test::participants_of(chain_plan(cluster.topology));
  for (const std::uint32_t device : {0u, 1u, 2u}) start(device, {2, 1, 1, 1});
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1) && ended(2); }));
  for (const std::uint32_t device : {0u, 1u, 2u}) EXPECT_TRUE(at(device).report->outcome.ok());
  EXPECT_EQ(at(2).destination(), at(0).source());
}

TEST_F(EngineFailure, ChunksOfAnOldEpochAreThrownAway) {
  start(0, {1, 1, 1, 1});
  settle();
  // Device 1 is in epoch 2. It must drop the old chunks, and their sender must not hang.
  start(1, {2, 1, 1, 1});
  start(2, {2, 1, 1, 1});
  settle();
  EXPECT_FALSE(ended(1));
  EXPECT_EQ(cluster.engines[1]->counters().bytes_received(Path::kLoopback), 0u);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0); }));
}

TEST_F(EngineFailure, PlansThatDifferAreFoundOut) {
  start(0);
  const Shape shape = {16 * 1024};
  const Region whole = Region::whole(shape);
  // The same transfer with other chunks.
  const ReshardPlan other =
      plan_reshard({{DType::kF32, shape},
                    {shape, {{DeviceId(0), whole}}},
                    {shape, {{DeviceId(1), whole}, {DeviceId(2), whole}}}},
                   cluster.topology, ReshardAlgorithm::kBroadcast, {2048, 2048, 2});
  participants.at(DeviceId(1))->part = other.device_part(DeviceId(1));
  start(1);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(1); }));
  EXPECT_EQ(error(1).code(), ErrorCode::kIncompatible);
}

TEST_F(EngineFailure, AnIdUnderWayCannotBeStartedAgain) {
  start(0);
  settle();
  Participant again(at(0).part, at(0).sources);
  again.start(*cluster.engines[0], {1, 1, 1, 1});
  ASSERT_TRUE(cluster.poll_until([&] { return again.report.has_value(); }));
  EXPECT_EQ(again.report->outcome.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_FALSE(ended(0));
  start(1);
  start(2);
  ASSERT_TRUE(cluster.poll_until([&] { return ended(0) && ended(1) && ended(2); }));
  EXPECT_EQ(at(2).destination(), at(0).source());
}

TEST_F(EngineFailure, BuffersThatDoNotFitAreRefused) {
  const auto expect_refused = [&](std::uint32_t device, Participant& participant,
                                  const char* words) {
    EXPECT_THAT(
        [&] {
          participant.start(*cluster.engines[device], {1, 1, 1, 1});
        },
        test::throws_error(ErrorCode::kInvalidArgument, words));
  };
  Participant small(at(0).part, {std::vector<std::byte>(100)});
  expect_refused(0, small, "source 100 and destination");
  Participant none(at(0).part, {});
  expect_refused(0, none, "0 sources and");
  expect_refused(2, at(0), "a part for device 0 was started on device 2");
}

TEST_F(EngineFailure, ADeviceThatIsNotConnectedIsNamed) {
  LoopbackHub hub;
  EngineOptions options;
  options.mode = EngineOptions::Mode::kStepped;
  TransferEngine alone(hub.attach(DeviceId(0)), cluster.clock, options);
  at(0).start(alone, {1, 1, 1, 1});
  while (!ended(0)) alone.poll();
  EXPECT_EQ(error(0).code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(error(0).message().find("device 1"), std::string::npos);
}

TEST_F(EngineFailure, ShuttingAnEngineDownEndsItsTransfers) {
  start(0);
  settle();
  cluster.engines[0].reset();
  ASSERT_TRUE(ended(0));
  EXPECT_EQ(error(0).code(), ErrorCode::kCancelled);
  cluster.engines.erase(cluster.engines.begin());
}

TEST(EngineMemory, AStalledTailBoundsWhatARelayStages) {
  // Columns of a wide tensor: each chunk is strided at the relay and must be staged for forwarding.
  const Topology topology = Topology::dense({1, 1, 1});
  const Shape shape = {64, 64}, wide = {64, 128};
  const Region half({{0, 64}, {0, 64}});
  const ReshardTask task{
      {DType::kF32, wide},
      {wide, {{DeviceId(0), half}, {DeviceId(2), Region({{0, 64}, {64, 128}})}}},
      {wide, {{DeviceId(1), Region::whole(wide)}, {DeviceId(2), Region::whole(wide)}}}};
  const ReshardPlan plan =
      plan_reshard(task, topology, ReshardAlgorithm::kBroadcast, {512, 512, 2});
  LoopbackOptions options;
  options.eager_bytes = 0;
  EngineCluster cluster(topology, options);
  auto participants = test::participants_of(plan);
  for (const std::uint32_t device : {0u, 1u})
    participants.at(DeviceId(device))->start(*cluster.engines[device], {1, 1, 1, 1});
  for (int i = 0; i < 200; ++i) cluster.poll();
  for (auto& engine : cluster.engines)
    EXPECT_LE(engine->counters().peak_staging_bytes, 2 * 2 * 512u * 2)
        << "two windows of two chunks, two flows";
  participants.at(DeviceId(2))->start(*cluster.engines[2], {1, 1, 1, 1});
  ASSERT_TRUE(cluster.poll_until([&] {
    return std::all_of(participants.begin(), participants.end(),
                       [](const auto& entry) { return entry.second->report.has_value(); });
  }));
  for (const std::uint32_t device : {1u, 2u}) {
    ASSERT_TRUE(participants.at(DeviceId(device))->report->outcome.ok());
    EXPECT_EQ(participants.at(DeviceId(device))->destination(),
              test::box_of_indices(Region::whole(wide), wide, 4));
  }
}

}  // namespace
}  // namespace weft::transfer
