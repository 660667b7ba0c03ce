#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "transfer/execute/active_work.h"
#include "transfer/execute/chunk_header.h"
#include "transfer/execute/internal/segmented_view.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Buffers of a transfer, one per tensor of its part on each side. Empty where the device has
/// nothing.
struct Buffers {
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> destinations;
};

/// Transfer in progress on this device: the state of each chunk of each stream.
///
///   arrives ─▶ (held: no slot free) ─▶ received ─▶ landed
///   landed ─┬▶ in the destination, unpacked if strided
///           ├▶ forwarded to each child, at most `window` at a time
///           ├▶ a partial sum: this device's own term is added first
///           └▶ a term of a reduction ─▶ reduced ─▶ sent as a result
///
/// See ActiveWork.
class ActiveTransfer final : public ActiveWork {
 public:
  ActiveTransfer(const TransferContext& context, const DevicePart& part, const TransferId& id,
                 std::uint64_t order, Buffers buffers, const TransferLimits& limits);

  TransferReport report() const override;
  /// Makes the local copies and starts the first sends.
  void begin() override;
  Arrival message_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                          std::size_t bytes, std::span<const std::byte> payload) override;
  void chunk_refused(DeviceId child, std::uint32_t flow, std::uint32_t chunk) override;
  void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome) override;
  void chunk_received(const PendingChunk& what, const Outcome<void>& outcome) override;
  NetworkUse network_use(std::uint32_t stream) const override;
  void send_over_network(std::uint32_t stream) override;
  bool needs(DeviceId peer) const override;
  std::set<DeviceId> abandon_messages() override;

 private:
  struct SentChunk {
    std::uint32_t chunk;
    bool held;  // true if the receiver holds the chunk
  };
  struct Child {
    DeviceId device;
    bool network = false;  // true if EgressOrder orders sends to it
    std::uint32_t next = 0, done = 0;
    std::vector<SentChunk> in_flight = {};  // at most a window
  };
  struct ChunkState {
    SlotPool::Slot slot;
    std::uint32_t users = 0;
    std::uint32_t crc = 0;  // CRC32C from the header, or taken here; 0: not taken
    bool seen = false;
    bool is_unpacked = false;  // true if the bytes are in the destinations
    bool verified = false;     // true if checked before landing, where the bytes were read
  };
  struct Held {
    MessageId message;
    std::uint32_t chunk;
  };
  struct StreamState {
    const FlowRole* stream = nullptr;
    // view of the sources (root of kDeliver, kContribution, kSum) or else of the destinations, if
    // any
    SegmentedView view;
    SegmentedView term;         // view of the sources: the term added to each chunk, if any
    DType dtype = DType::kF32;  // type of the added terms
    std::vector<Child> children;
    std::vector<ChunkState> chunks;
    // chunks in the order they became available to the children; unused if `all_ready`
    std::vector<std::uint32_t> ready;
    std::vector<Held> held;
    std::uint32_t landed = 0, receiving = 0, slots_in_use = 0;
    bool all_ready = false;
  };
  struct ReductionState {
    const Reduction* reduction = nullptr;
    StridedView source, destination;
    std::vector<std::uint32_t> arrived;       // number of terms per chunk
    std::vector<std::uint32_t> term_streams;  // stream of each rank's term; unused for the own rank
    std::vector<std::uint32_t> result_streams;
    std::uint32_t prefix = 0;  // number of leading chunks that are all reduced
    std::vector<bool> reduced;
  };

  std::size_t chunk_size(const FlowRole& stream, std::uint32_t chunk) const;
  std::optional<std::uint32_t> find_stream(std::uint32_t flow) const;
  /// Returns the stream whose children receive its chunks as flow `flow`.
  std::optional<std::uint32_t> find_sending(std::uint32_t flow) const;
  bool can_receive(const StreamState& state, std::uint32_t chunk) const;
  void take(std::uint32_t index, std::uint32_t chunk, MessageId message,
            std::span<const std::byte> payload);
  void landed(std::uint32_t index, std::uint32_t chunk);
  /// Creates the views of a stream. Throws Error(kInvalidArgument) if the part is inconsistent.
  void open_stream(StreamState& state);
  void open_sum(StreamState& state);
  /// Adds this device's term to a partial sum that has landed in a slot.
  void add_term(StreamState& state, std::uint32_t chunk);
  /// Returns the bytes of a received chunk: in its slot, or in a contiguous part of a destination.
  std::span<const std::byte> landed_bytes(StreamState& state, std::uint32_t chunk);
  /// Checks a landed chunk's CRC32C. Returns false if it differs; the transfer has then failed.
  bool verify(StreamState& state, std::uint32_t chunk, std::span<const std::byte> bytes);
  /// Unpacks a chunk that has landed in a slot.
  void unpack(StreamState& state, std::uint32_t chunk);
  void reduce(std::uint32_t index, std::uint32_t chunk);
  /// Sends all chunks that can be sent: immediately inside the host, in their turn over the
  /// network.
  void pump(std::uint32_t index);
  std::uint32_t next_chunk(const StreamState& state, const Child& child) const {
    return state.all_ready ? child.next : state.ready[child.next];
  }
  bool can_send(const StreamState& state, const Child& child) const;
  /// Sends one more chunk if possible. Returns false if none can be sent.
  bool send_next(std::uint32_t index, std::uint32_t child);
  void receive_held(std::uint32_t index);
  /// Returns the buffers that a stream sends from.
  std::span<const std::span<const std::byte>> sent_from(const StreamState& state) const {
    return state.all_ready ? sources_ : destinations_const_;
  }
  bool in_place(std::uint32_t tensor) const;
  /// Returns the bytes of a chunk that can be sent, packed if necessary.
  std::span<const std::byte> chunk_bytes(StreamState& state, std::uint32_t chunk);
  /// Copies a chunk out of the box into a slot that all children share.
  void pack(StreamState& state, std::uint32_t chunk);
  void release_slot(std::uint32_t index, std::uint32_t chunk);
  /// Returns the chunks for TransferReport::landed.
  std::vector<LandedChunks> landed() const;
  void complete_one();
  std::set<DeviceId> stop(bool keep_messages) override;
  bool complete() const override { return remaining_ == 0; }
  std::string describe() const override { return "transfer " + to_string(id()); }
  std::string describe_missing() const override;

  const DevicePart& part_;
  const std::vector<std::span<const std::byte>> sources_;
  const std::vector<std::span<std::byte>> destinations_;
  const std::vector<std::span<const std::byte>> destinations_const_;  // destinations_, for reading
  std::vector<StreamState> streams_;
  std::vector<ReductionState> reductions_;
  // chunks to land, to send per child and to reduce, plus 1 while begin() runs
  std::uint64_t remaining_ = 0;
};

}  // namespace weft::transfer
