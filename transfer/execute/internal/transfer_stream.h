#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "transfer/execute/internal/segmented_view.h"
#include "transfer/execute/internal/transfer_buffers.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/flow/device_part.h"
#include "transfer/flow/landed_chunks.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Chunks of one stream of an ActiveTransfer on this device: their memory, and which of them have
/// arrived, landed and left.
///
/// Sends and receives nothing itself. Belongs to one ActiveTransfer. Transfer thread only.
class TransferStream final {
 public:
  /// Chunk that arrived and cannot be received yet.
  struct Held {
    MessageId message;
    std::uint32_t chunk;
  };

  /// All arguments but `id` outlive the stream. Throws Error(kInvalidArgument) if the part is
  /// inconsistent.
  TransferStream(const TransferContext& context, const DevicePart& part,
                 const TransferBuffers& buffers, const FlowRole& role, const TransferId& id);

  const FlowRole& role() const { return *role_; }
  std::uint32_t num_chunks() const { return static_cast<std::uint32_t>(chunks_.size()); }
  std::size_t chunk_size(std::uint32_t chunk) const;
  /// Returns true if received chunks are terms of a sum, which do not go to the destinations as
  /// they are.
  bool receives_terms() const {
    return role_->kind == FlowKind::kContribution || role_->adds_own_term();
  }

  // ---- arriving chunks ----

  bool expects(DeviceId sender, std::uint32_t chunk, std::size_t bytes) const;
  /// Records that a chunk has arrived, with the checksum of its header.
  void mark_seen(std::uint32_t chunk, std::uint32_t crc);
  /// Returns true if a chunk can be received now: a slot is free, or the chunk needs none.
  bool has_room_for(std::uint32_t chunk) const;
  void hold(const Held& held) { held_.push_back(held); }
  /// Returns the chunks that wait for room.
  std::vector<Held>& held() { return held_; }

  /// Returns the contiguous place of a chunk in a destination, if it has one and may go there.
  std::optional<std::span<std::byte>> place_of(std::uint32_t chunk) const;
  /// Returns a new slot for a chunk. Its users are the children, and the device itself.
  std::span<std::byte> stage(std::uint32_t chunk);
  /// Returns true if a payload can be unpacked where it was read, without a slot.
  bool can_unpack_directly() const { return !receives_terms() && children_.empty(); }
  void begin_receive() { ++receiving_; }
  void end_receive() { --receiving_; }

  // ---- landed chunks ----

  /// Returns the bytes of a received chunk: in its slot, or in its place in a destination.
  std::span<const std::byte> landed_bytes(std::uint32_t chunk);
  /// Checks the CRC32C of a received chunk. Returns an error if it differs.
  std::optional<Error> verify(std::uint32_t chunk, std::span<const std::byte> bytes);
  bool is_verified(std::uint32_t chunk) const { return chunks_[chunk].verified; }
  /// Adds this device's term to a partial sum, which is in a slot.
  void add_term(std::uint32_t chunk);
  /// Counts a landed chunk and makes it available to the children.
  void mark_landed(std::uint32_t chunk);
  /// Makes a chunk of a reduction's result available to the children.
  void make_ready(std::uint32_t chunk) { ready_.push_back(chunk); }
  /// Copies `bytes` of a chunk to the destinations.
  void scatter(std::uint32_t chunk, std::span<const std::byte> bytes) const;
  /// Records that a chunk is in the destinations; copies it there if it landed in a slot.
  void unpack(std::uint32_t chunk);
  /// Returns the slot of a chunk, which has one.
  std::span<const std::byte> slot_bytes(std::uint32_t chunk) { return chunks_[chunk].slot.bytes(); }
  /// Ends one use of a chunk's slot, if it has one. Returns true if the slot became free.
  bool release_slot(std::uint32_t chunk);
  /// Returns the chunks for TransferReport::landed; empty for streams that are not listed there.
  std::optional<LandedChunks> landed_chunks() const;

  // ---- leaving chunks ----

  std::uint32_t num_children() const { return static_cast<std::uint32_t>(children_.size()); }
  /// Returns true if EgressOrder orders the sends to a child.
  bool is_network(std::uint32_t child) const { return children_[child].network; }
  bool can_send(std::uint32_t child) const;
  /// Returns the next chunk to send to a child, which can_send(). `stream`: index of this stream.
  OutgoingChunk next_send(std::uint32_t stream, std::uint32_t child);
  /// Records that `device` holds a chunk in flight.
  void mark_held(DeviceId device, std::uint32_t chunk);
  /// Removes a chunk from those in flight to a child.
  void end_send(std::uint32_t child, std::uint32_t chunk);
  void count_sent(std::uint32_t child) { ++children_[child].done; }
  /// Copies a chunk out of the box into a slot that all children share.
  void pack(std::uint32_t chunk);
  /// See ActiveWork::NetworkUse.
  bool wants_network() const;
  bool moves_on_network() const;

  // ---- the end ----

  /// Returns true while this device must still send to or receive from `peer`.
  bool needs(DeviceId peer) const;
  /// Adds the devices that still wait for this one.
  void add_waiting(std::set<DeviceId>& waiting) const;
  /// Forgets held messages. Adds the devices with messages in flight or held.
  void abandon_messages(std::set<DeviceId>& busy);
  /// Describes the chunks that have not arrived or left, one text per device.
  std::vector<std::string> describe_missing() const;

 private:
  struct SentChunk {
    std::uint32_t chunk;
    bool held;  // true if the receiver holds the chunk
  };
  struct TreeChild {
    DeviceId device;
    bool network = false;
    std::uint32_t next = 0, done = 0;
    std::vector<SentChunk> in_flight = {};  // at most a window
  };
  struct Chunk {
    SlotPool::LeasedSlot slot;
    std::uint32_t users = 0;
    std::uint32_t crc = 0;  // CRC32C from the header, or taken here; 0: not taken
    bool seen = false;
    bool is_unpacked = false;  // true if the bytes are in the destinations
    bool verified = false;     // true if checked before landing, where the bytes were read
  };

  void open_sum();
  std::size_t offset_of(std::uint32_t chunk) const { return chunk * role_->chunk_bytes; }
  std::optional<SegmentedView::BufferOffset> contiguous(std::uint32_t chunk) const {
    return view_.contiguous(offset_of(chunk), chunk_size(chunk));
  }
  std::uint32_t next_chunk(const TreeChild& child) const {
    return all_ready_ ? child.next : ready_[child.next];
  }
  /// Returns the bytes of a chunk that can be sent, packed if necessary.
  std::span<const std::byte> sent_bytes(std::uint32_t chunk);

  const TransferContext* context_;
  const DevicePart* part_;
  const TransferBuffers* buffers_;
  const FlowRole* role_;
  TransferId id_;
  bool all_ready_;  // true if all chunks are in the sources from the start
  // view of the sources (root of kDeliver, kContribution, kSum) or else of the destinations, if any
  SegmentedView view_;
  SegmentedView term_;         // view of the sources: the term added to each chunk, if any
  DType dtype_ = DType::kF32;  // type of the added terms
  std::vector<TreeChild> children_;
  std::vector<Chunk> chunks_;
  // chunks in the order they became available to the children; unused if all_ready_
  std::vector<std::uint32_t> ready_;
  std::vector<Held> held_;
  std::uint32_t landed_ = 0, receiving_ = 0, slots_in_use_ = 0;
};

}  // namespace weft::transfer
