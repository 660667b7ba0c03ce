// Tests one transfer without an engine. The test delivers each message.
#include "transfer/execute/internal/active_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace weft::transfer {
namespace {

constexpr DeviceId kUp(0), kRelay(1), kDown(2);
constexpr std::uint32_t kRelayChunkBytes = 16, kRelayChunks = 6, kRelayWindow = 2;
constexpr TransferId kRelayId{1, 2, 3, 4};

/// Port that records the transfer's requests. The test ends sends.
class RecordingPort final : public TransferPort {
 public:
  void send(ActiveWork&, const OutgoingChunk& chunk) override { sent.push_back(chunk); }
  void receive(ActiveWork&, DeviceId, const PendingChunk& what, MessageId,
               std::span<std::byte> buffer) override {
    receiving.push_back({what, buffer});
  }
  void send_note(DeviceId, const ChunkHeader&) override {}
  void take(MessageId message, DeviceId, std::size_t) override { taken.push_back(message); }
  void release(MessageId message) override { released.push_back(message); }
  void drop_message(MessageId message, DeviceId, std::string_view) override {
    refused.push_back(message);
  }
  void schedule(ActiveWork& transfer, std::uint32_t stream) override {
    if (transfer.network_use(stream).wants) ++asked_for_a_turn;
  }
  void failed(ActiveWork&, const std::set<DeviceId>& tell) override { told = tell; }
  void finished(ActiveWork& transfer) override { report = transfer.report(); }

  struct Receive {
    PendingChunk what;
    std::span<std::byte> buffer;
  };
  std::vector<OutgoingChunk> sent;
  std::vector<Receive> receiving;
  std::vector<MessageId> taken, released, refused;
  int asked_for_a_turn = 0;
  std::set<DeviceId> told;
  std::optional<TransferReport> report;
};

/// Device that receives six chunks from kUp, keeps them and forwards them to kDown.
class Relay : public testing::Test {
 protected:
  Relay() {
    peers.add(kUp, HostId(0));
    peers.add(kDown, HostId(2));
    const Region whole({{0, kRelayChunks * kRelayChunkBytes / 4}});
    part.device = kRelay;
    part.tensors = {{DType::kF32, std::nullopt, whole}};
    FlowRole stream;
    stream.segments = {Segment::whole(0, whole, 4)};
    stream.parent = kUp;
    stream.children = {kDown};
    stream.bytes = kRelayChunks * kRelayChunkBytes;
    stream.chunk_bytes = kRelayChunkBytes;
    stream.window = kRelayWindow;
    part.streams = {stream};
  }

  ActiveTransfer& begin() {
    transfer = std::make_unique<ActiveTransfer>(
        TransferContext{port, slots, clock, peers}, part, kRelayId, 0,
        TransferBuffers{{std::span<const std::byte>()}, {std::span<std::byte>(memory)}},
        TransferLimits{});
    transfer->begin();
    return *transfer;
  }
  /// Delivers a chunk with an eager payload. Each payload byte is the chunk's number.
  ActiveTransfer::Arrival arrive(std::uint32_t chunk, DeviceId sender = kUp) {
    const std::vector<std::byte> payload(kRelayChunkBytes, static_cast<std::byte>(chunk));
    return transfer->message_arrived(MessageId(chunk), sender,
                                     ChunkHeader::of(ChunkHeader::kChunk, kRelayId, 0, chunk),
                                     payload.size(), payload);
  }
  void end_send(std::size_t i) { transfer->chunk_sent(port.sent[i].what, Outcome<void>()); }

  ManualClock clock;
  Peers peers;
  SlotPool slots;
  DevicePart part;
  std::vector<std::byte> memory = std::vector<std::byte>(kRelayChunks * kRelayChunkBytes);
  RecordingPort port;
  std::unique_ptr<ActiveTransfer> transfer;
};

TEST_F(Relay, PassesEachChunkOnAsSoonAsItIsThereAWindowAtATime) {
  begin();
  for (std::uint32_t chunk = 0; chunk < kRelayChunks; ++chunk) arrive(kRelayChunks - 1 - chunk);
  EXPECT_EQ(port.taken.size(), kRelayChunks);
  ASSERT_EQ(port.sent.size(), kRelayWindow);
  EXPECT_TRUE(port.sent[0].first);
  EXPECT_FALSE(port.sent[1].first);
  for (std::size_t i = 0; i < kRelayChunks; ++i) {
    ASSERT_GT(port.sent.size(), i);
    EXPECT_EQ(port.sent[i].what.chunk, kRelayChunks - 1 - i) << "in the order in which they came";
    EXPECT_EQ(port.sent[i].payload.front(), static_cast<std::byte>(kRelayChunks - 1 - i));
    EXPECT_FALSE(port.report.has_value());
    end_send(i);
  }
  ASSERT_TRUE(port.report.has_value());
  EXPECT_TRUE(port.report->outcome.ok());
  EXPECT_EQ(port.report->bytes_received, kRelayChunks * kRelayChunkBytes);
  EXPECT_EQ(port.report->bytes_sent, kRelayChunks * kRelayChunkBytes);
}

TEST_F(Relay, SendsOverTheNetworkOnlyInItsTurn) {
  peers.set_path(kDown, Path::kTcp);
  begin();
  arrive(0);
  EXPECT_TRUE(port.sent.empty());
  EXPECT_EQ(port.asked_for_a_turn, 1);
  EXPECT_TRUE(transfer->network_use(0).wants);
  transfer->send_over_network(0);
  ASSERT_EQ(port.sent.size(), 1u);
  EXPECT_FALSE(transfer->network_use(0).wants);
  EXPECT_TRUE(transfer->network_use(0).moves);
  transfer->chunk_refused(kDown, 0, 0);
  EXPECT_FALSE(transfer->network_use(0).moves) << "its receiver cannot take it yet";
}

TEST_F(Relay, AMessageThatNoPlanExpectsIsRefusedAndWaitingPeersAreNotified) {
  begin();
  arrive(0);
  arrive(0, kDown);
  EXPECT_EQ(port.refused, std::vector<MessageId>{MessageId(0)});
  EXPECT_EQ(port.told, (std::set<DeviceId>{kUp, kDown}));
  EXPECT_FALSE(port.report.has_value()) << "a send is under way";
  end_send(0);
  ASSERT_TRUE(port.report.has_value());
  EXPECT_EQ(port.report->outcome.error().code(), ErrorCode::kIncompatible);
  ASSERT_EQ(port.report->landed.size(), 1u);
  EXPECT_TRUE(port.report->landed[0].has(0));
  EXPECT_FALSE(port.report->landed[0].has(1));
}

TEST_F(Relay, APeerWhoseMessagesDoNotEndAfterAFailureIsDroppedAfterTheGrace) {
  begin();
  arrive(0);
  transfer->fail(Error(ErrorCode::kPeerDied, "it died"), ActiveTransfer::NotifyPeers::kWaiting);
  const Nanoseconds grace = std::chrono::milliseconds(500);
  EXPECT_EQ(transfer->next_check(grace), clock.now() + grace);
  EXPECT_TRUE(transfer->check_deadline(clock.now(), grace).empty());
  clock.advance(grace);
  EXPECT_EQ(transfer->check_deadline(clock.now(), grace), std::set<DeviceId>{kDown});
  end_send(0);
  EXPECT_TRUE(port.report.has_value());
}

/// Relay whose chunks must be unpacked, so that they wait in slots for its child.
TEST_F(Relay, HoldsBackChunksUntilASlotIsFree) {
  // Columns 0 to 3 of rows of 8: no chunk is contiguous in the destination.
  const std::int64_t rows = kRelayChunks * kRelayChunkBytes / 8;
  const Region all({{0, rows}, {0, 4}}), sent({{0, rows}, {0, 2}});
  part.tensors[0].destination = all;
  part.streams[0].segments = {Segment::whole(0, sent, 4)};
  memory.resize(static_cast<std::size_t>(rows) * 16);
  begin();
  for (std::uint32_t chunk = 0; chunk < 2 * kRelayWindow; ++chunk)
    EXPECT_EQ(arrive(chunk), ActiveTransfer::Arrival::kDone);
  EXPECT_EQ(arrive(2 * kRelayWindow), ActiveTransfer::Arrival::kHeld);
  EXPECT_TRUE(port.receiving.empty());
  end_send(0);
  ASSERT_EQ(port.receiving.size(), 1u);
  EXPECT_EQ(port.receiving[0].what.chunk, 2 * kRelayWindow);
  // A failure releases held chunks.
  EXPECT_EQ(arrive(2 * kRelayWindow + 1), ActiveTransfer::Arrival::kHeld);
  transfer->fail(Error(ErrorCode::kCancelled, "enough"), ActiveTransfer::NotifyPeers::kWaiting);
  EXPECT_EQ(port.released, std::vector<MessageId>{MessageId(2 * kRelayWindow + 1)});
  transfer->chunk_received(port.receiving[0].what, Outcome<void>());
  for (std::size_t i = 1; i < port.sent.size(); ++i) end_send(i);
  EXPECT_TRUE(port.report.has_value());
}

}  // namespace
}  // namespace weft::transfer
