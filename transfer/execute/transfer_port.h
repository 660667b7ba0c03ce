#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "core/base/clock.h"
#include "transfer/execute/chunk_header.h"
#include "transfer/execute/peers.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/flow/flow.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

class ActiveWork;

/// Chunk that a send or receive in flight carries, as indices into the work.
struct PendingChunk {
  std::uint32_t stream = 0;
  std::uint32_t child = 0;  // sends only
  std::uint32_t chunk = 0;
};

struct OutgoingChunk {
  PendingChunk what;
  DeviceId child;
  FlowId flow;
  std::uint32_t crc = 0;  // CRC32C of the payload; see ChunkHeader
  std::span<const std::byte> payload;
  bool first = false;  // first chunk of its flow to this child
  std::uint32_t magic = ChunkHeader::kChunk;
};

/// Interface through which work uses the engine: to send, to receive, to schedule, and to report
/// failure and completion.
///
/// Implemented by the engine's dispatcher and by tests. An operation that a call starts ends later
/// with ActiveWork::chunk_sent() or chunk_received(), never inside the call. Transfer thread only.
class TransferPort {
 public:
  virtual ~TransferPort() = default;

  /// Sends a chunk. The payload stays unchanged until chunk_sent().
  virtual void send(ActiveWork& work, const OutgoingChunk& chunk) = 0;
  /// Sends a message without payload, if the peer is connected.
  virtual void send_note(DeviceId peer, const ChunkHeader& note) = 0;
  /// Receives the message's payload into `buffer`, then calls chunk_received().
  virtual void receive(ActiveWork& work, DeviceId sender, const PendingChunk& what,
                       MessageId message, std::span<std::byte> buffer) = 0;
  /// Ends a message whose payload of `bytes` bytes was read in place.
  virtual void take(MessageId message, DeviceId sender, std::size_t bytes) = 0;
  /// Ends a message that is no longer needed.
  virtual void release(MessageId message) = 0;
  /// Ends a message that was never expected, and counts it as dropped.
  virtual void drop_message(MessageId message, DeviceId sender, std::string_view why) = 0;

  /// Reports that ActiveWork::network_use() of a stream has changed. send_over_network() follows in
  /// the stream's turn, perhaps inside this call.
  virtual void schedule(ActiveWork& work, std::uint32_t stream) = 0;

  /// Reports that the work has failed. Messages that still arrive for it are released. The devices
  /// in `tell` receive the error, so that they need not wait for their deadlines.
  virtual void failed(ActiveWork& work, const std::set<DeviceId>& tell) = 0;
  /// Reports that no message of the work is in flight any more. Its callback is due.
  virtual void finished(ActiveWork& work) = 0;
};

/// References that all work of an engine shares. All of them outlive the work.
struct TransferContext {
  TransferPort& port;
  SlotPool& slots;
  const Clock& clock;
  const Peers& peers;
  bool orders_network = true;  // sends over the network take turns; see TransferPort::schedule()
  bool verifies = false;       // checksums are verified: EngineOptions::Checksum::kVerify
};

}  // namespace weft::transfer
