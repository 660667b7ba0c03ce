// Tests an engine that receives data-plane messages outside any plan from a device that may send.
#include "transfer/execute/chunk_header.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/error_codec.h"
#include "core/log/log.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/hostile_device.h"
#include "transfer/execute/transfer_engine.h"
#include "transfer/reshard/plan.h"
#include "transfer/wire/loopback_hub.h"

namespace weft::transfer {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::Participant;

constexpr DeviceId kHostile(0), kVictim(1), kHonest(2);
constexpr std::size_t kChunk = 1024;
constexpr std::uint32_t kChunks = 64;

/// Engine that receives from a hostile and an honest device.
class ChunkHeaders : public testing::Test {
 protected:
  ChunkHeaders() : hostile(hub.attach(kHostile)), engine(make(kVictim)), honest(make(kHonest)) {
    connect(*engine, kHostile, hostile.wire().address());
    connect(*engine, kHonest, honest->address());
    connect(*honest, kVictim, engine->address());
    hostile.wire().connect(kVictim, HostId(1), engine->address());
  }

  std::unique_ptr<TransferEngine> make(DeviceId device) {
    EngineOptions options;
    options.mode = EngineOptions::Mode::kStepped;
    if (device == kVictim)
      options.log = Log(LogLevel::kWarning,
                        [this](LogLevel, const std::string& line) { lines.push_back(line); });
    return std::make_unique<TransferEngine>(hub.attach(device), clock, options);
  }
  static void connect(TransferEngine& from, DeviceId to, std::vector<std::byte> address) {
    from.connect(to, HostId(to.value()), std::move(address));
  }
  /// Makes a plan of 64 chunks of 1 KiB.
  static ReshardPlan plan_from(DeviceId sender) {
    const Shape shape = {kChunks * kChunk / 4};
    const Region whole = Region::whole(shape);
    return plan_reshard(
        {{DType::kF32, shape}, {shape, {{sender, whole}}}, {shape, {{kVictim, whole}}}},
        Topology::dense({1, 1, 1}), ReshardAlgorithm::kBroadcast, {kChunk, kChunk, 4});
  }
  /// Starts the victim's part of a transfer from the hostile device.
  Participant& expect_transfer(const TransferId& id) {
    Participant& participant = *participants.emplace_back(
        test::participants_of(plan_from(kHostile)).at(kVictim).release());
    participant.start(*engine, id);
    settle();
    return participant;
  }
  void settle() {
    for (int i = 0; i < 5; ++i) {
      engine->poll();
      honest->poll();
      hostile.wire().progress();
    }
  }
  std::uint64_t dropped() const { return engine->counters().messages_dropped; }

  ManualClock clock;
  std::vector<std::string> lines;  // victim's log
  // Payloads up to 4 KiB are sent eagerly.
  LoopbackHub hub;
  std::vector<std::unique_ptr<Participant>> participants;  // outlive the engines
  test::HostileDevice hostile;
  std::unique_ptr<TransferEngine> engine, honest;
};

using DataPlaneFuzz = ChunkHeaders;

TEST_F(DataPlaneFuzz, DamagedChunkHeadersLeaveTheEngineSound) {
  test::Mutator mutator(13);
  const std::vector<std::byte> error =
      encode(Error(ErrorCode::kInternal, "what happened").from("device 0", ""));
  constexpr std::uint32_t kMagics[] = {ChunkHeader::kChunk, ChunkHeader::kChunk,
                                       ChunkHeader::kNotReady, ChunkHeader::kAnnounce,
                                       ChunkHeader::kAbort};
  constexpr std::size_t kSizes[] = {0, 1, kChunk - 1, kChunk, kChunk + 1, 4096, 5000, 1 << 20};
  TransferId id{1, 0, 1, 1};
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE(round);
    if (round % 20 == 0) expect_transfer(id = {1, static_cast<std::uint64_t>(round), 1, 1});
    const std::uint32_t magic = kMagics[mutator.below(std::size(kMagics))];
    // Includes earlier and later transfers, other flows, chunks beyond the last, and repetitions.
    const TransferId of{id.epoch, id.step + 20 * mutator.below(3) - 20, id.op, id.microbatch};
    const auto header = ChunkHeader::of(magic, mutator.below(4) == 0 ? of : id,
                                        mutator.below(8) == 0 ? 1 : 0, mutator.below(kChunks + 1));
    const auto sound = bytes_of(header);
    std::vector<std::byte> payload(
        kSizes[mutator.below(mutator.below(2) == 0 ? std::size(kSizes) : 5)]);
    if (magic == ChunkHeader::kAbort) payload = mutator.damage(error);
    hostile.send(kVictim, mutator.below(3) == 0 ? mutator.damage(sound) : sound,
                 std::move(payload));
    settle();
  }
  EXPECT_GT(dropped(), 1000u);
  EXPECT_FALSE(lines.empty());
  std::size_t failed = 0;
  for (const auto& each : participants)
    failed += each->report && !each->report->outcome.ok() ? 1 : 0;
  EXPECT_GT(failed, participants.size() / 2);

  engine->cancel_all(Error(ErrorCode::kCancelled, "the next epoch begins"));
  settle();
  for (const auto& each : participants) EXPECT_TRUE(each->report.has_value());
  const auto sound = test::participants_of(plan_from(kHonest));
  for (const auto& [device, participant] : sound)
    participant->start(device == kVictim ? *engine : *honest, {2, 1, 1, 1});
  for (int i = 0; i < 100; ++i) settle();
  for (const auto& [device, participant] : sound) {
    ASSERT_TRUE(participant->report && participant->report->outcome.ok());
  }
  test::expect_delivered(*sound.at(kVictim), plan_from(kHonest));
}

TEST_F(ChunkHeaders, DroppedMessagesAreCountedAndLoggedAtALimitedRate) {
  for (int i = 0; i < 10; ++i) hostile.send(kVictim, std::vector<std::byte>(17));
  settle();
  EXPECT_EQ(dropped(), 10u);
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "dropped a message from device 0 (host 0): its header has an unknown type"}));
  clock.advance(11s);
  expect_transfer({7, 1, 1, 1});
  hostile.send(kVictim, ChunkHeader::of(ChunkHeader::kChunk, {6, 1, 1, 1}, 0, 0), kChunk);
  settle();
  EXPECT_EQ(dropped(), 11u);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "dropped a message from device 0 (host 0): it belongs to an earlier epoch (9 more "
            "dropped since the last such line)");
}

TEST_F(ChunkHeaders, AChunkThatComesTwiceEndsItsTransferAndIsDropped) {
  const TransferId id{1, 1, 1, 1};
  Participant& participant = expect_transfer(id);
  for (int i = 0; i < 3; ++i)
    hostile.send(kVictim, ChunkHeader::of(ChunkHeader::kChunk, id, 0, 5), kChunk);
  settle();
  ASSERT_TRUE(participant.report.has_value());
  EXPECT_EQ(participant.report->outcome.error().code(), ErrorCode::kIncompatible);
  EXPECT_EQ(dropped(), 2u)
      << "the second for what it is, the third because the transfer has failed";
}

TEST_F(ChunkHeaders, AnErrorThatIsTooLongIsDroppedAndTakesNoMemory) {
  const TransferId id{1, 1, 1, 1};
  Participant& participant = expect_transfer(id);
  hostile.send(kVictim, ChunkHeader::of(ChunkHeader::kAbort, id, 0, 0), 64 * 1024 + 1);
  settle();
  EXPECT_FALSE(participant.report.has_value());
  EXPECT_EQ(dropped(), 1u);
}

TEST_F(ChunkHeaders, ALongErrorIsCutAndStillTold) {
  const Shape shape = {2 * kChunk};
  const Region whole = Region::whole(shape), first({{0, kChunk}}), second({{kChunk, 2 * kChunk}});
  const auto both =
      test::participants_of(plan_reshard({{DType::kF32, shape},
                                          {shape, {{kHostile, first}, {kHonest, second}}},
                                          {shape, {{kVictim, whole}}}},
                                         Topology::dense({1, 1, 1}), ReshardAlgorithm::kBroadcast));
  engine->peer_died(kHostile, Error(ErrorCode::kPeerDied, std::string(1 << 20, 'x')));
  both.at(kVictim)->start(*engine, {1, 1, 1, 1});
  settle();
  both.at(kHonest)->start(*honest, {1, 1, 1, 1});
  for (int i = 0; i < 20; ++i) settle();
  ASSERT_TRUE(both.at(kHonest)->report.has_value());
  const Error& told = both.at(kHonest)->report->outcome.error();
  EXPECT_EQ(told.code(), ErrorCode::kPeerDied);
  EXPECT_EQ(told.message(), std::string(32 * 1024, 'x') + "...");
}

TEST_F(ChunkHeaders, EarlyChunksOfTransfersThatNeverBeginAreLimited) {
  const std::uint32_t most = Wire::kEagerBudget / 4;
  for (std::uint32_t i = 0; i <= most; ++i) {
    hostile.wire().send(
        kVictim,
        bytes_of(ChunkHeader::of(ChunkHeader::kChunk, {1, i / kChunks, 1, 1}, 0, i % kChunks)), {},
        Token(i));
    if (i % 1024 == 0) engine->poll();
  }
  settle();
  EXPECT_EQ(engine->counters().early_chunks, most);
  EXPECT_EQ(dropped(), 1u);
  Participant& participant = expect_transfer({2, 1, 1, 1});
  ASSERT_TRUE(participant.report.has_value());
  EXPECT_EQ(participant.report->outcome.error().code(), ErrorCode::kIncompatible);
}

}  // namespace
}  // namespace weft::transfer
