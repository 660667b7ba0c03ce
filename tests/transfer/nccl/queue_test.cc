#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "tests/support/gpu_cluster.h"
#include "tests/support/thrown_error.h"
#include "transfer/nccl/collective_host.h"

namespace weft::transfer {
namespace {

using std::chrono::milliseconds;

CommunicatorGroup pair(std::uint32_t a, std::uint32_t b) {
  return CommunicatorGroup::of({DeviceId(a), DeviceId(b)});
}

/// Makes a transfer of 64 bytes from one device to another.
test::GpuOperation send(std::uint32_t op, std::uint32_t from, std::uint32_t to) {
  const CommunicatorGroup group = pair(from, to);
  test::GpuOperation operation{{op, 0}, {}, {}, {}, false};
  for (const std::uint32_t device : {std::min(from, to), std::max(from, to)}) {
    const bool sends = device == from;
    const CollectiveCall call{
        sends ? CallKind::kSend : CallKind::kReceive,
        DType::kU8,
        ReduceOp::kSum,
        static_cast<std::uint32_t>(*group.rank_of(DeviceId(sends ? to : from))),
        64,
        {BufferKind::kSource, 0, 0},
        {BufferKind::kDestination, 0, 0}};
    operation.lowered.parts.push_back({DeviceId(device),
                                       {group},
                                       {sends ? 64u : 0u},
                                       {sends ? 0u : 64u},
                                       0,
                                       {RoundStep{0, 0, {call}}}});
    operation.sources[DeviceId(device)].emplace_back(sends ? 64 : 0, std::byte(op + 1));
    operation.destinations[DeviceId(device)].emplace_back(sends ? 0 : 64, std::byte{0});
  }
  return operation;
}

void start(test::GpuCluster& cluster, test::GpuOperation& operation, std::uint32_t device) {
  const auto& parts = operation.lowered.parts;
  operation.start(*cluster.gpus[device], DeviceId(device),
                  parts[0].device == DeviceId(device) ? parts[0] : parts[1]);
}

TEST(CollectiveHost, HasAName) { EXPECT_FALSE(collective_host_name().empty()); }

TEST(CollectiveQueue, HoldsAnOperationBackUntilEarlierOnesAreEnqueued) {
  test::GpuCluster cluster(2);
  test::GpuOperation first = send(0, 0, 1), second = send(1, 1, 0);
  cluster.open(1, {pair(0, 1)});
  for (auto& gpu : cluster.gpus) gpu->queue.begin({first.key, second.key});
  start(cluster, second, 1);  // must wait for `first`
  EXPECT_THAT(
      [&] { cluster.gpus[1]->queue.wait(second.key, *cluster.gpus[1]->compute); },
      test::throws_error(ErrorCode::kInternal, "comes first in the order and was not started"));
  start(cluster, first, 0);
  start(cluster, second, 0);
  EXPECT_FALSE(cluster.gpus[0]->queue.done(first.key));
  start(cluster, first, 1);
  EXPECT_TRUE(cluster.gpus[0]->queue.done(first.key));
  EXPECT_TRUE(cluster.gpus[0]->queue.done(second.key));
  EXPECT_TRUE(cluster.gpus[1]->queue.idle());
  EXPECT_EQ(second.destinations.at(DeviceId(0))[0], second.sources.at(DeviceId(1))[0]);
  EXPECT_EQ(cluster.world.stuck(), "");
}

TEST(CollectiveQueue, DifferentOrdersDeadlock) {
  test::GpuCluster cluster(2);
  test::GpuOperation first = send(0, 0, 1), second = send(1, 1, 0);
  cluster.open(1, {pair(0, 1)});
  cluster.gpus[0]->queue.begin({first.key, second.key});
  cluster.gpus[1]->queue.begin({second.key, first.key});
  for (const std::uint32_t device : {0u, 1u}) {
    start(cluster, first, device);
    start(cluster, second, device);
  }
  EXPECT_EQ(cluster.world.stuck(),
            "\n  rank 0 stands at round: send(64, 1)\n  rank 1 stands at round: send(64, 0)");
}

TEST(CollectiveQueue, OperationsThatDifferAreSeen) {
  test::GpuCluster cluster(2);
  test::GpuOperation operation = send(0, 0, 1);
  std::get<RoundStep>(operation.lowered.parts[1].steps[0]).calls[0].count = 32;
  cluster.open(1, {pair(0, 1)});
  for (const std::uint32_t device : {0u, 1u}) {
    cluster.gpus[device]->queue.begin({operation.key});
    try {
      start(cluster, operation, device);
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "rank 0 sends 64 elements to rank 1, which receives 32");
    }
  }
  EXPECT_EQ(cluster.world.error(), "rank 0 sends 64 elements to rank 1, which receives 32");
}

TEST(CollectiveQueue, NoStartWaitsForConnectionsThatWereMadeBefore) {
  test::GpuCluster cluster(3, {.connects_lazily = true});
  const std::vector<CommunicatorGroup> groups = {
      pair(0, 1), CommunicatorGroup::of({DeviceId(0), DeviceId(1), DeviceId(2)})};
  cluster.open(1, groups);
  const auto errors = cluster.on(
      cluster.all(), [&](std::uint32_t device) { cluster.gpus[device]->queue.connect(groups); });
  EXPECT_TRUE(errors.empty());
  test::GpuOperation operation = send(0, 0, 1);
  cluster.gpus[0]->queue.begin({operation.key});
  start(cluster, operation, 0);  // If it waited for device 1, this thread would hang.
  ASSERT_EQ(cluster.gpus[0]->queue.on_stream().size(), 1u);
  EXPECT_EQ(cluster.gpus[0]->queue.current(), operation.key);
  EXPECT_FALSE(cluster.gpus[0]->queue.passage(operation.key).done->done());
  cluster.gpus[1]->queue.begin({operation.key});
  start(cluster, operation, 1);
  EXPECT_TRUE(cluster.gpus[0]->queue.passage(operation.key).done->done());
  EXPECT_EQ(cluster.gpus[0]->queue.current(), std::nullopt);
  EXPECT_EQ(cluster.world.error(), "");
}

TEST(CollectiveQueue, AMemberThatDoesNotComeIsADeadline) {
  CollectiveQueueOptions options;
  options.create_timeout = milliseconds(20);
  test::GpuCluster cluster(2, {}, options);
  const CommunicatorChanges changes = cluster.ledger.ensure(std::array{pair(0, 1)});
  const auto ids = cluster.make_ids(changes.create);
  EXPECT_THAT(
      [&] { cluster.gpus[0]->queue.open(1, changes, ids); },
      test::throws_error(ErrorCode::kDeadlineExceeded,
                         "the communicator of devices {0,1} has not been created within 20"));
}

TEST(CollectiveQueue, WaitingForAMemberIsCancelledFromOutside) {
  test::GpuCluster cluster(2);
  const CommunicatorChanges changes = cluster.ledger.ensure(std::array{pair(0, 1)});
  const auto ids = cluster.make_ids(changes.create);
  const auto errors = cluster.on({0, 1}, [&](std::uint32_t device) {
    if (device == 0) cluster.gpus[0]->queue.open(3, changes, ids);
    else cluster.gpus[0]->queue.cancel(3, Error(ErrorCode::kPeerDied, "device 1 is gone"));
  });
  EXPECT_EQ(errors.at(0).message(), "device 1 is gone");
  EXPECT_THAT([&] { cluster.gpus[0]->queue.open(3, {}, {}); },
              test::throws_error(ErrorCode::kPeerDied, "device 1 is gone"))
      << "the epoch is over";
  cluster.gpus[0]->queue.abort();
  EXPECT_NO_THROW(cluster.gpus[0]->queue.open(4, {}, {}));
}

TEST(CollectiveQueue, ADeadPeerIsSeenAndASecondEpochWorksWithItsReplacement) {
  for (const bool sees_death : {true, false}) {
    SCOPED_TRACE(sees_death);
    CollectiveQueueOptions options;
    options.operation_timeout = milliseconds(sees_death ? 60'000 : 5);
    test::GpuCluster cluster(3, {false, sees_death}, options);
    cluster.open(1, {pair(0, 1), pair(1, 2)});
    test::GpuOperation lost = send(0, 0, 1), other = send(1, 1, 2);
    cluster.gpus[1]->queue.begin({lost.key, other.key});
    start(cluster, other, 1);
    start(cluster, lost, 1);
    cluster.world.kill(0);
    std::optional<Error> error;
    while (!error) {
      try {
        cluster.gpus[1]->queue.poll();
      } catch (const Error& seen) {
        error = seen;
      }
    }
    EXPECT_EQ(error->code(), sees_death ? ErrorCode::kPeerDied : ErrorCode::kDeadlineExceeded)
        << error->describe();
    EXPECT_NE(cluster.world.stuck(), "");
    // The control plane ends the epoch on all devices. Survivors abort their operations.
    for (const std::uint32_t device : {1u, 2u}) {
      cluster.gpus[device]->queue.cancel(1, Error(ErrorCode::kPeerDied, "device 0 has died"));
      EXPECT_THAT([&] { cluster.gpus[device]->queue.begin({}); },
                  test::throws_error(ErrorCode::kPeerDied, "device 0 has died"));
      cluster.gpus[device]->queue.abort();
    }
    EXPECT_EQ(cluster.world.stuck(), "");
    cluster.ledger.clear();
    const CommunicatorChanges changes = cluster.ledger.ensure(std::array{pair(1, 2)});
    const auto ids = cluster.gpus[1]->queue.make_ids(changes.create);
    test::GpuOperation again = send(2, 1, 2);
    const auto errors = cluster.on({1, 2}, [&](std::uint32_t device) {
      cluster.gpus[device]->queue.open(2, changes, ids);
      cluster.gpus[device]->queue.begin({again.key});
      start(cluster, again, device);
    });
    EXPECT_TRUE(errors.empty()) << errors.begin()->second.describe();
    EXPECT_EQ(cluster.world.stuck(), "");
    EXPECT_TRUE(cluster.gpus[2]->queue.done(again.key));
    EXPECT_EQ(again.destinations.at(DeviceId(2))[0], again.sources.at(DeviceId(1))[0]);
  }
}

TEST(CollectiveQueue, SurvivorsContinueWithTheirShrunkCommunicators) {
  test::GpuCluster cluster(4);
  const CommunicatorGroup everybody =
      CommunicatorGroup::of({DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)});
  cluster.open(1, {everybody, pair(1, 2)});
  cluster.world.kill(0);
  const std::array dead = {DeviceId(0)};
  const CommunicatorGroup rest = survivors_of(everybody, dead);
  EXPECT_EQ(cluster.ledger.shrink(dead), std::vector{rest});
  const CollectiveCall call{CallKind::kBroadcast,
                            DType::kU8,
                            ReduceOp::kSum,
                            2,
                            16,
                            {BufferKind::kSource, 0, 0},
                            {BufferKind::kDestination, 0, 0}};
  std::vector<std::byte> sent(16, std::byte{7});
  std::array<std::vector<std::byte>, 4> received;
  received.fill(std::vector<std::byte>(16));
  std::array<DeviceOperations, 4> parts;
  const auto errors = cluster.on({1, 2, 3}, [&](std::uint32_t device) {
    CollectiveQueue& queue = cluster.gpus[device]->queue;
    queue.shrink(2, dead);
    queue.begin({{0, 0}});
    parts[device] = {DeviceId(device), {rest}, {16}, {16}, 0, {RoundStep{0, 0, {call}}}};
    const std::span<const std::byte> from = sent;
    const std::span<std::byte> to = received[device];
    queue.start({0, 0}, parts[device], {&from, 1}, {&to, 1}, nullptr);
  });
  EXPECT_TRUE(errors.empty()) << errors.begin()->second.describe();
  EXPECT_EQ(cluster.world.stuck(), "");
  EXPECT_EQ(received[1], sent);
  EXPECT_EQ(received[2], sent);
}

TEST(CollectiveQueue, CommunicatorsAreKeptFromProgramToProgram) {
  test::GpuCluster cluster(3);
  cluster.ledger = CommunicatorCache(2);
  cluster.open(1, {pair(0, 1), pair(0, 2)});
  EXPECT_EQ(cluster.world.created(), 4u);
  cluster.open(1, {pair(0, 1)});
  EXPECT_EQ(cluster.world.created(), 4u);
  cluster.open(1, {pair(1, 2), pair(0, 1)});  // Below the limit.
  EXPECT_EQ(cluster.world.created(), 6u);
  // Destroys two communicators to stay below the limit.
  cluster.open(1, {CommunicatorGroup::of({DeviceId(0), DeviceId(1), DeviceId(2)})});
  EXPECT_EQ(cluster.ledger.size(), 2u);
}

}  // namespace
}  // namespace weft::transfer
