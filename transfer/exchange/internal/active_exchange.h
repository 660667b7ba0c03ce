#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "transfer/exchange/internal/exchange_state.h"
#include "transfer/execute/active_work.h"

namespace weft::transfer {

/// Part of an exchange on the transfer thread: the streams between this device and each other one.
///
/// A stream from its sender to its receiver:
///
///   sender                                       receiver
///     queue ─ below the limit ─▶ in flight ─────▶ landed ─ in order ─▶ ready, taken by the user
///       ◀───────────── kCredit: the limit ──────────────────────────────┘
///     end ───── kEnd: the count ────────────────▶ all taken
///       ◀─────────── kConsumed ─────────────────────┘
///
/// See ActiveWork.
class ActiveExchange final : public ActiveWork {
 public:
  ActiveExchange(const TransferContext& context, const TransferId& id, std::uint64_t order,
                 std::shared_ptr<ExchangeState> state);

  /// Queues a block and sends it in its turn.
  void put(std::uint32_t rank, ExchangeBlock block);
  void end_stream(std::uint32_t rank);
  /// Handles that the user has taken a block. For own blocks see own_stream_done().
  void taken(std::uint32_t rank);

  void begin() override;
  Arrival message_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                          std::size_t bytes, std::span<const std::byte> payload) override;
  void chunk_refused(DeviceId child, std::uint32_t flow, std::uint32_t chunk) override;
  void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) override;
  void chunk_received(const PendingChunk& what, const Outcome<void>& outcome) override;
  bool may_receive_late_notes() const override { return true; }
  NetworkUse network_use(std::uint32_t stream) const override;
  void send_over_network(std::uint32_t stream) override;
  bool needs(DeviceId peer) const override;
  std::set<DeviceId> abandon_messages() override;

 private:
  struct Outgoing {
    std::deque<ExchangeBlock> queue;
    std::map<std::uint32_t, ExchangeBlock> in_flight;  // keyed by number; at most `credits` blocks
    std::set<std::uint32_t> held;                      // blocks in flight that the receiver holds
    std::uint32_t sent = 0, limit = 0;
    bool ended = false, taken = false;
  };
  struct Incoming {
    // Blocks by number. `landed`: blocks out of order.
    std::map<std::uint32_t, ExchangeBlock> receiving, landed;
    std::uint32_t limit = 0, delivered = 0, taken = 0;
    std::uint32_t arrived_end = 0;     // end of the blocks that have arrived
    std::optional<std::uint32_t> end;  // number of blocks of the stream
    bool taken_sent = false;           // kConsumed has been sent
    bool all_landed() const { return end == delivered; }
  };
  struct PeerStream {
    DeviceId device;
    std::uint32_t rank = 0, index = 0;
    bool network = false;  // true if EgressOrder orders sends
    Outgoing out;
    Incoming in;
    bool done() const { return out.taken && in.taken_sent; }
  };

  std::set<DeviceId> stop(bool keep_messages) override;
  bool complete() const override;
  std::string describe() const override { return "exchange " + to_string(id()); }
  std::string describe_missing() const override;

  /// Returns the stream of a rank. Numbering starts at the next rank, so that devices do not all
  /// send to the same one first.
  PeerStream& stream_of(std::uint32_t rank) {
    return streams_[(rank + num_ranks_ - state_->rank - 1) % num_ranks_];
  }
  PeerStream* find(DeviceId device);
  void note(const PeerStream& stream, std::uint32_t magic, std::uint32_t flow, std::uint32_t chunk);
  void grant(PeerStream& stream);
  static bool can_send(const PeerStream& stream);
  void send_next(PeerStream& stream);
  void pump(PeerStream& stream);
  void block_arrived(PeerStream& stream, MessageId message, const ChunkHeader& header,
                     std::size_t bytes, std::span<const std::byte> payload);
  void note_arrived(PeerStream& stream, const ChunkHeader& header);
  void landed(PeerStream& stream, std::uint32_t number, ExchangeBlock block);
  /// Sends kConsumed if the whole stream has been taken.
  void finish_incoming(PeerStream& stream);
  void fail_inconsistent(const PeerStream& stream, std::string_view what);
  void give_back(BlockPool& pool, ExchangeBlock block);

  const std::shared_ptr<ExchangeState> state_;  // shared with the user
  const std::uint32_t num_ranks_;
  std::deque<PeerStream> streams_;
};

}  // namespace weft::transfer
