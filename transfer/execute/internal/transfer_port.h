#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "core/base/clock.h"
#include "transfer/execute/internal/peers.h"
#include "transfer/execute/internal/slot_pool.h"
#include "transfer/flow/flow.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

class ActiveTransfer;

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
};

/// What a transfer under way asks of the engine: send, receive, schedule; and what it tells it.
///
/// The engine's dispatcher is one; tests have their own. What a call begins ends later, by
/// ActiveTransfer::chunk_sent() or chunk_received(), never inside the call. Transfer thread only.
class TransferPort {
 public:
  virtual ~TransferPort() = default;

  /// The payload stays as it is until chunk_sent().
  virtual void send(ActiveTransfer& transfer, const OutgoingChunk& chunk) = 0;
  /// The message's payload lands in `buffer` before chunk_received().
  virtual void receive(ActiveTransfer& transfer, DeviceId sender, const PendingChunk& what,
                       MessageId message, std::span<std::byte> buffer) = 0;
  /// Ends a message whose payload, of so many bytes, was read in place.
  virtual void take(MessageId message, DeviceId sender, std::size_t bytes) = 0;
  /// Ends a message that is not wanted any more.
  virtual void release(MessageId message) = 0;
  /// Ends a message that was never wanted, and counts it as dropped.
  virtual void refuse(MessageId message, DeviceId sender, std::string_view why) = 0;

  /// What a stream wants of the network has changed (ActiveTransfer::network_use()).
  /// send_over_network() follows in its turn, perhaps inside this call.
  virtual void schedule(ActiveTransfer& transfer, std::uint32_t stream) = 0;

  /// The transfer has failed: what still arrives for it is released, and the devices in `tell` hear
  /// why, so that they need not wait for their deadlines.
  virtual void failed(ActiveTransfer& transfer, const std::set<DeviceId>& tell) = 0;
  /// Nothing of the transfer is under way any more; its callback is due.
  virtual void finished(ActiveTransfer& transfer) = 0;
};

/// What all transfers of an engine share. All of it outlives them.
struct TransferContext {
  TransferPort& port;
  SlotPool& slots;
  const Clock& clock;
  const Peers& peers;
  bool orders_network = true;  // sends over the network take turns; see TransferPort::schedule()
  bool verifies = false;       // EngineOptions::Checksum::kVerify
};

}  // namespace weft::transfer
