// Tests exchanges of streams of unknown length between all devices, over a loopback that delays,
// reorders, damages and kills. Also tests messages that belong to no exchange.
#include "transfer/exchange/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/hostile_device.h"
#include "tests/support/thrown_error.h"

namespace weft::transfer {
namespace {

using Bytes = std::vector<std::byte>;

constexpr TransferId kId{1, 1, 1, 1};

std::vector<DeviceId> all_of(std::size_t devices) {
  std::vector<DeviceId> ranks;
  for (std::uint32_t i = 0; i < devices; ++i) ranks.emplace_back(i);
  return ranks;
}

/// Device of an exchange. Sends its blocks and receives others a few at a time.
struct Member {
  Member(TransferEngine& engine, ExchangeOptions options, const TransferId& id = kId)
      : exchange(engine, id, std::move(options), [] {}) {
    to_put.resize(exchange.num_ranks());
    got.resize(exchange.num_ranks());
  }

  /// Sends and receives without blocking, in a random order of ranks. Receives only if `takes`.
  /// Returns false if there was no work.
  bool work(std::mt19937_64& random, bool takes) {
    bool busy = false;
    const std::uint64_t first = random();
    for (std::uint32_t i = 0; i < to_put.size(); ++i) {
      const auto rank = static_cast<std::uint32_t>((first + i) % to_put.size());
      while (!to_put[rank].empty() && exchange.put(rank, to_put[rank].front())) {
        to_put[rank].pop_front();
        busy = true;
      }
      if (to_put[rank].empty()) exchange.end_stream(rank);
    }
    while (takes) {
      const auto block = exchange.take_block();
      if (!block) break;
      Bytes& stream = got[block->from()];
      stream.insert(stream.end(), block->bytes().begin(), block->bytes().end());
      busy = true;
    }
    return busy;
  }

  bool over() const { return exchange.outcome().has_value(); }

  std::vector<std::deque<Bytes>> to_put;
  std::vector<Bytes> got;  // by sender
  Exchange exchange;
};

/// Cluster whose devices are all in one exchange.
struct World {
  explicit World(std::size_t devices, std::size_t budget, LoopbackOptions wire = {},
                 EngineOptions engines = {}, TransferLimits limits = {})
      : cluster(Topology::dense(std::vector<int>(devices, 1)), std::move(wire),
                std::move(engines)) {
    for (auto& engine : cluster.engines)
      members.push_back(
          std::make_unique<Member>(*engine, ExchangeOptions{all_of(devices), budget, limits}));
  }
  ~World() { members.clear(); }

  /// Queues blocks of random sizes. Returns the expected streams as [to][from].
  std::vector<std::vector<Bytes>> fill(std::mt19937_64& random, std::uint64_t most_blocks) {
    std::vector<std::vector<Bytes>> expected(members.size(), std::vector<Bytes>(members.size()));
    for (std::uint32_t from = 0; from < members.size(); ++from) {
      for (std::uint32_t to = 0; to < members.size(); ++to) {
        for (std::uint64_t n = random() % 4 == 0 ? 0 : random() % (most_blocks + 1); n > 0; --n) {
          Bytes block(1 + random() % members[from]->exchange.block_bytes());
          for (std::byte& byte : block) byte = static_cast<std::byte>(random());
          expected[to][from].insert(expected[to][from].end(), block.begin(), block.end());
          members[from]->to_put[to].push_back(std::move(block));
        }
      }
    }
    return expected;
  }
  bool over() const {
    return std::ranges::all_of(members, [](const auto& member) { return member->over(); });
  }
  /// Runs until all members are over or idle. The rank `lazy` seldom receives.
  bool run(std::mt19937_64& random, std::optional<std::uint32_t> lazy = {}) {
    for (int idle = 0; idle < 2000 && !over();) {
      bool busy = cluster.poll();
      for (std::uint32_t i = 0; i < members.size(); ++i)
        busy = members[i]->work(random, i == lazy ? random() % 200 == 0 : true) || busy;
      idle = busy ? 0 : idle + 1;
    }
    return over();
  }
  const Error& error(std::uint32_t device) const { return errors.at(device); }
  void expect_errors(const std::vector<std::uint32_t>& devices) {
    for (const std::uint32_t device : devices) {
      const auto ended = members[device]->exchange.outcome();
      ASSERT_TRUE(ended && !ended->ok()) << "device " << device;
      errors.insert_or_assign(device, ended->error());
    }
  }

  std::map<std::uint32_t, Error> errors;
  test::EngineCluster cluster;
  std::vector<std::unique_ptr<Member>> members;
};

TEST(Exchange, EveryStreamComesWholeAndInItsOrder) {
  const std::uint64_t seed = 3;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    LoopbackOptions wire;
    wire.eager_bytes = std::array<std::size_t, 3>{0, 1000, 1 << 20}[random() % 3];
    if (random() % 3 != 0) wire.shuffle_seed = random();
    const std::size_t devices = 1 + random() % 5;
    if (random() % 2 == 0) wire.hosts = Topology::dense(std::vector<int>(devices, 1));
    EngineOptions engines;
    engines.egress.device_streams = random() % 3;  // 0: unordered
    const std::size_t least = (devices + 1) * BlockBudget::kMinBlockBytes;
    World world(devices, least * (1 + random() % 20), wire, engines);
    const auto expected = world.fill(random, 12);
    ASSERT_TRUE(world.run(random, static_cast<std::uint32_t>(random() % devices))) << "stuck";
    for (std::uint32_t to = 0; to < devices; ++to) {
      const Exchange& exchange = world.members[to]->exchange;
      ASSERT_TRUE(exchange.outcome()->ok()) << exchange.outcome()->error().describe();
      std::uint64_t others = 0;
      for (std::uint32_t from = 0; from < devices; ++from) {
        ASSERT_EQ(world.members[to]->got[from], expected[to][from]) << from << " to " << to;
        others += from == to ? 0 : expected[to][from].size();
      }
      EXPECT_EQ(exchange.bytes_received(), others);
      const auto counters = world.cluster.engines[to]->counters();
      if (engines.egress.device_streams != 0) {
        EXPECT_LE(counters.peak_network_streams, engines.egress.device_streams);
      }
      EXPECT_EQ(counters.messages_dropped, 0u);
    }
  }
}

TEST(Exchange, AReceiverThatTakesNothingHoldsItsSendersAtTheirBudget) {
  std::mt19937_64 random(1);
  World world(2, 10 * 4096);
  const std::size_t block = world.members[0]->exchange.block_bytes();
  const BlockBudget sizes = BlockBudget::of(2, 10 * 4096);
  std::size_t put = 0;
  for (int i = 0; i < 200; ++i) {
    if (world.members[0]->exchange.put(1, Bytes(block))) ++put;
    world.cluster.poll();
  }
  EXPECT_EQ(put, sizes.credits + sizes.send_blocks);
  EXPECT_LE(block * put, 2 * 10 * 4096u) << "half of them at each end";
  // The receiver's own stream is not delayed.
  EXPECT_TRUE(world.members[1]->exchange.put(0, Bytes(block)));
  std::optional<ReceivedBlock> back;
  ASSERT_TRUE(world.cluster.poll_until([&] {
    if (!back) back = world.members[0]->exchange.take_block();
    return back.has_value();
  }));
  back.reset();
  ASSERT_TRUE(world.run(random));
  EXPECT_TRUE(world.members[1]->exchange.outcome()->ok());
  EXPECT_EQ(world.members[1]->got[0].size(), put * block);
}

TEST(Exchange, BlocksShrinkWithTheBudgetAndOneTooSmallNamesTheLeast) {
  EXPECT_EQ(BlockBudget::of(2, 32 << 20).block_bytes, 256u * 1024);
  for (const std::size_t ranks : {1, 2, 5, 64}) {
    for (const std::size_t budget : {1u << 19, 1u << 20, 3u << 20, 64u << 20}) {
      const BlockBudget sizes = BlockBudget::of(ranks, budget);
      EXPECT_LE((sizes.send_blocks + sizes.credits * (ranks - 1)) * sizes.block_bytes, budget);
      EXPECT_GE(sizes.send_blocks, 2u);
      EXPECT_GE(sizes.credits, 1u);
    }
  }
  const Error error = test::error_of([] { BlockBudget::of(8, 30 * 1024); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message(),
            "an exchange among 8 devices needs a budget of at least 36 KiB; it has 30");
}

TEST(Exchange, ADeathEndsItEverywhereAndTheNextEpochStartsAnew) {
  std::mt19937_64 random(5);
  World world(3, 1 << 20);
  world.fill(random, 8);
  for (auto& member : world.members) member->to_put[0].emplace_back(100);  // not over yet
  for (int i = 0; i < 4; ++i) world.cluster.poll();
  world.cluster.hub.kill(DeviceId(2));
  ASSERT_TRUE(world.cluster.poll_until(
      [&] { return world.members[0]->over() && world.members[1]->over(); }));
  world.expect_errors({0, 1});
  EXPECT_EQ(world.error(0).code(), ErrorCode::kPeerDied);
  EXPECT_NE(world.error(0).message().find("device 2 (host 2)"), std::string::npos);
  // The survivors continue without device 2.
  std::vector<std::unique_ptr<Member>> members;
  for (const int device : {0, 1}) {
    members.push_back(std::make_unique<Member>(*world.cluster.engines[device],
                                               ExchangeOptions{all_of(2), 1 << 20},
                                               TransferId{2, 1, 1, 1}));
    members.back()->to_put[1].push_back(Bytes(1000, static_cast<std::byte>(device)));
  }
  for (int i = 0; i < 1000; ++i) {
    world.cluster.poll();
    for (auto& member : members) member->work(random, true);
  }
  for (auto& member : members) {
    ASSERT_TRUE(member->exchange.outcome() && member->exchange.outcome()->ok());
  }
  EXPECT_EQ(members[1]->got[0], Bytes(1000, std::byte{0}));
  EXPECT_EQ(members[1]->got[1], Bytes(1000, std::byte{1}));
}

TEST(Exchange, APeerThatHasAllMayDieWithoutHarm) {
  std::mt19937_64 random(6);
  World world(3, 1 << 20);
  const auto expected = world.fill(random, 8);
  ASSERT_TRUE(world.run(random));
  world.cluster.hub.kill(DeviceId(2));
  world.cluster.poll_until([] { return false; });
  EXPECT_TRUE(world.members[0]->exchange.outcome()->ok());
  EXPECT_EQ(world.members[0]->got[1], expected[0][1]);
}

TEST(Exchange, AnExchangeThatPeersNeverOpenEndsAtItsDeadlineAndNamesThem) {
  test::EngineCluster cluster(Topology::dense({1, 1}));
  Member member(*cluster.engines[0], {all_of(2), 1 << 20, {std::chrono::seconds(5)}});
  member.exchange.end_all_streams();
  for (int i = 0; i < 20; ++i) cluster.poll();
  EXPECT_FALSE(member.exchange.outcome());
  cluster.clock.advance(std::chrono::seconds(6));
  ASSERT_TRUE(cluster.poll_until([&] { return member.over(); }));
  const Error error = member.exchange.outcome()->error();
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(error.message(),
            "exchange epoch 1 step 1 op 1 microbatch 1 did not finish within 5 s: received 0 "
            "blocks from device 1 (host 1), but not the end of its stream; device 1 (host 1) has "
            "not taken all of 0 blocks (0 wait for it). Those devices may be stuck, or may not "
            "have opened this "
            "exchange");
}

TEST(Exchange, CancelEndsItOnAllDevicesWithItsError) {
  std::mt19937_64 random(7);
  World world(3, 1 << 20);
  world.fill(random, 8);
  for (int i = 0; i < 3; ++i) {
    world.members[1]->work(random, true);
    world.cluster.poll();
  }
  const Error stop(ErrorCode::kCancelled, "another phase begins");
  world.members[1]->exchange.cancel(stop);
  ASSERT_TRUE(world.cluster.poll_until([&] { return world.over(); }));
  world.expect_errors({0, 1, 2});
  EXPECT_EQ(world.error(1), stop);
  EXPECT_EQ(world.error(0).message(), stop.message());
  EXPECT_EQ(world.error(0).node(), "device 1");
  EXPECT_FALSE(world.members[1]->exchange.put(0, Bytes(10))) << "there is no room any more";
}

TEST(Exchange, AnExchangeCancelledByOneDeviceEndsOnAll) {
  World world(2, 1 << 20);
  world.cluster.poll();
  world.members[0].reset();
  const Exchange& other = world.members[1]->exchange;
  ASSERT_TRUE(world.cluster.poll_until([&] { return other.outcome().has_value(); }));
  EXPECT_EQ(other.outcome()->error().message(), "the exchange was destroyed before it ended");
  world.members.erase(world.members.begin());
}

TEST(Exchange, UnequalBudgetsAreRefusedOnBothSides) {
  test::EngineCluster cluster(Topology::dense({1, 1}));
  Member small(*cluster.engines[0], {all_of(2), 64 * 1024});
  Member large(*cluster.engines[1], {all_of(2), 1 << 20});
  ASSERT_TRUE(cluster.poll_until([&] { return small.over() && large.over(); }));
  EXPECT_EQ(small.exchange.outcome()->error().code(), ErrorCode::kIncompatible);
  EXPECT_EQ(large.exchange.outcome()->error().code(), ErrorCode::kIncompatible);
}

TEST(Exchange, WrongRanksAreRefusedAtOnce) {
  test::EngineCluster cluster(Topology::dense({1, 1}));
  for (const auto& ranks : std::vector<std::vector<DeviceId>>{
           {}, {DeviceId(1)}, {DeviceId(0), DeviceId(1), DeviceId(0)}}) {
    EXPECT_EQ(test::error_of([&] {
                Member member(*cluster.engines[0], {ranks, 1 << 20});
              }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(Exchange, ADamagedBlockEndsItAndNamesItsSender) {
  std::mt19937_64 random(8);
  LoopbackOptions wire;
  wire.corrupt_payload = 5;
  World world(2, 1 << 20, wire);
  for (int i = 0; i < 20; ++i) world.members[0]->to_put[1].emplace_back(1000);
  world.run(random);
  world.expect_errors({0, 1});
  EXPECT_EQ(world.error(1).code(), ErrorCode::kDataLoss);
  EXPECT_NE(world.error(1).message().find("from device 0 (host 0) arrived damaged"),
            std::string::npos);
}

TEST(Exchange, ATransferUnderItsNameIsRefusedOnBothSides) {
  test::EngineCluster cluster(Topology::dense({1, 1}));
  const Shape shape = {1024};
  const Region whole = Region::whole(shape);
  const auto participants = test::participants_of(plan_reshard(
      {{DType::kF32, shape}, {shape, {{DeviceId(0), whole}}}, {shape, {{DeviceId(1), whole}}}},
      Topology::dense({1, 1}), ReshardAlgorithm::kSendRecv));
  participants.at(DeviceId(0))->start(*cluster.engines[0], kId);
  Member member(*cluster.engines[1], {all_of(2), 1 << 20});
  ASSERT_TRUE(cluster.poll_until([&] { return member.over(); }));
  EXPECT_EQ(member.exchange.outcome()->error().code(), ErrorCode::kIncompatible);
  ASSERT_TRUE(cluster.poll_until([&] { return participants.at(DeviceId(0))->report.has_value(); }));
}

/// Runs a real engine in exchanges with a device that sends arbitrary messages.
TEST(ExchangeFuzz, MessagesThatNoExchangeAsksForLeaveTheEngineSound) {
  test::Mutator mutator(29);
  ManualClock clock;
  LoopbackHub hub;
  constexpr DeviceId kVictim(0), kHostile(1);
  test::HostileDevice hostile(hub.attach(kHostile));
  EngineOptions options;
  options.mode = EngineOptions::Mode::kStepped;
  TransferEngine engine(hub.attach(kVictim), clock, options);
  engine.connect(kHostile, HostId(1), hostile.wire().address());
  hostile.wire().connect(kVictim, HostId(0), engine.address());
  const auto settle = [&] {
    for (int i = 0; i < 4; ++i) {
      engine.poll();
      hostile.wire().progress();
    }
  };
  constexpr std::uint32_t kMagics[] = {
      ChunkHeader::kBlock,    ChunkHeader::kBlock, ChunkHeader::kCredit,   ChunkHeader::kEnd,
      ChunkHeader::kConsumed, ChunkHeader::kChunk, ChunkHeader::kNotReady, ChunkHeader::kAbort};
  constexpr std::size_t kSizes[] = {0, 1, 100, 4096, 5000, 64 * 1024 + 1};
  std::unique_ptr<Member> member;
  TransferId id = kId;
  std::size_t failed = 0, blocks = 0;
  std::mt19937_64 random(1);
  for (int round = 0; round < 10'000; ++round) {
    SCOPED_TRACE(round);
    if (!member || member->exchange.outcome()) {
      failed += member ? 1 : 0;
      member.reset();
      id.step = static_cast<std::uint64_t>(round);
      member = std::make_unique<Member>(engine, ExchangeOptions{all_of(2), 256 * 1024}, id);
      member->to_put[1].assign(3, Bytes(1000));
      settle();
    }
    const std::uint32_t magic = kMagics[mutator.below(std::size(kMagics))];
    TransferId of = id;
    if (mutator.below(4) == 0) of.step += mutator.below(3) - 1;
    const bool sensible = mutator.below(2) == 0;
    Bytes payload(
        magic == ChunkHeader::kBlock || !sensible ? kSizes[mutator.below(std::size(kSizes))] : 0);
    auto header = ChunkHeader::of(
        magic, of, mutator.below(2) == 0 ? member->exchange.block_bytes() : mutator.below(1 << 20),
        static_cast<std::uint32_t>(mutator.below(6)));
    if (mutator.below(8) != 0) header.crc = crc32c(payload);
    const Bytes sound = test::bytes_of(header);
    hostile.send(kVictim, mutator.below(4) == 0 ? mutator.damage(sound) : sound,
                 std::move(payload));
    settle();
    member->work(random, mutator.below(2) == 0);
    for (const Bytes& stream : member->got) blocks += stream.empty() ? 0 : 1;
  }
  EXPECT_GT(failed, 100u);
  EXPECT_GT(blocks, 100u);
  EXPECT_GT(engine.counters().messages_dropped, 100u);
}

}  // namespace
}  // namespace weft::transfer
