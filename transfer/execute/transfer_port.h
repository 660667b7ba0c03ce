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

/// Which chunk a send or receive under way carries.
struct PendingChunk {
  std::uint32_t stream = 0;
  std::uint32_t child = 0;  // sends only
  std::uint32_t chunk = 0;
};

struct OutgoingChunk {
  PendingChunk what;
  DeviceId child;
  FlowId flow;
  std::uint32_t crc = 0;  // see ChunkHeader
  std::span<const std::byte> payload;
  bool first = false;  // of its flow to this child
  std::uint32_t magic = ChunkHeader::kChunk;
};

/// What work under way asks of the engine: send, receive, schedule; and what it tells it.
///
/// The engine's dispatcher is one; tests have their own. What a call begins ends later, by
/// ActiveWork::chunk_sent() or chunk_received(), never inside the call. Transfer thread only.
class TransferPort {
 public:
  virtual ~TransferPort() = default;

  /// The payload stays as it is until chunk_sent().
  virtual void send(ActiveWork& work, const OutgoingChunk& chunk) = 0;
  /// A message without payload, if the peer is connected.
  virtual void send_note(DeviceId peer, const ChunkHeader& note) = 0;
  /// The message's payload lands in `buffer` before chunk_received().
  virtual void receive(ActiveWork& work, DeviceId sender, const PendingChunk& what,
                       MessageId message, std::span<std::byte> buffer) = 0;
  /// Ends a message whose payload, of so many bytes, was read in place.
  virtual void take(MessageId message, DeviceId sender, std::size_t bytes) = 0;
  /// Ends a message that is not wanted any more.
  virtual void release(MessageId message) = 0;
  /// Ends a message that was never wanted, and counts it as dropped.
  virtual void refuse(MessageId message, DeviceId sender, std::string_view why) = 0;

  /// What a stream wants of the network has changed (ActiveWork::network_use()).
  /// send_over_network() follows in its turn, perhaps inside this call.
  virtual void schedule(ActiveWork& work, std::uint32_t stream) = 0;

  /// The work has failed: what still arrives for it is released, and the devices in `tell` hear
  /// why, so that they need not wait for their deadlines.
  virtual void failed(ActiveWork& work, const std::set<DeviceId>& tell) = 0;
  /// Nothing of the work is under way any more; its callback is due.
  virtual void finished(ActiveWork& work) = 0;
};

/// What all work of an engine shares. All of it outlives them.
struct TransferContext {
  TransferPort& port;
  SlotPool& slots;
  const Clock& clock;
  const Peers& peers;
  bool orders_network = true;  // sends over the network take turns; see TransferPort::schedule()
  bool verifies = false;       // EngineOptions::Checksum::kVerify
};

}  // namespace weft::transfer
