#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "transfer/execute/internal/chunk_header.h"
#include "transfer/execute/internal/segmented_view.h"
#include "transfer/execute/internal/slot_pool.h"
#include "transfer/execute/internal/transfer_port.h"
#include "transfer/execute/transfer_id.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// The memory of a transfer, one buffer per tensor of its part on each side. Empty where the device
/// has nothing.
struct Buffers {
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> destinations;
};

/// One transfer of this device while it is under way: the state of each chunk of each stream.
///
///   arrives ─▶ (held: no slot free) ─▶ received ─▶ landed
///   landed ─┬▶ in the destination, unpacked if strided
///           ├▶ passed on to each child, at most `window` at a time
///           ├▶ a partial sum: this device's own term is added first
///           └▶ a term of a reduction ─▶ reduced ─▶ sent as a result
///
/// It knows the engine as a TransferPort only. Owner: whoever implements that. Transfer thread
/// only. Lives until nothing of it is under way on the wire.
class ActiveTransfer final {
 public:
  /// `order`: transfers that go first where they compete for the network have lower ones.
  ActiveTransfer(const TransferContext& context, const DevicePart& part, const TransferId& id,
                 std::uint64_t order, Buffers buffers, const TransferLimits& limits);

  const TransferId& id() const { return id_; }
  std::uint64_t order() const { return order_; }
  const std::optional<Error>& error() const { return error_; }
  /// Of a transfer that has just finished.
  TransferReport report() const;

  /// Local copies and the first sends.
  void begin();
  /// The first bytes for this device are on their way.
  void bytes_are_coming();
  /// A chunk is here: takes it, or keeps its message for later (kHeld).
  enum class Arrival : std::uint8_t { kDone, kHeld };
  Arrival chunk_arrived(MessageId message, DeviceId sender, const ChunkHeader& header,
                        std::size_t bytes, std::span<const std::byte> payload);
  /// `child` has told that it cannot take this chunk yet.
  void chunk_held(DeviceId child, std::uint32_t flow, std::uint32_t chunk);
  void chunk_sent(const PendingChunk& what, const Outcome<void>& outcome);
  void chunk_received(const PendingChunk& what, const Outcome<void>& outcome);

  /// See EgressOrder. Chunks of a stream that go to children over the network.
  struct NetworkUse {
    bool wants = false;      // one could be sent now
    bool moves = false;      // some are under way and not held by their receivers
    std::size_t places = 0;  // DevicePart::egress_places
  };
  NetworkUse network_use(std::uint32_t stream) const;
  /// Sends all that can be sent now.
  void send_over_network(std::uint32_t stream);

  /// True while something must still go to or come from `peer`.
  bool needs(DeviceId peer) const;
  /// kOthers: the devices that still wait for this one hear why. kNobody: the caller cuts the
  /// connections next.
  enum class Tell : std::uint8_t { kOthers, kNobody };
  /// Stops: nothing new is sent or received. It is over once nothing is under way.
  void fail(const Error& error, Tell tell);
  /// Whose connections must be cut for the transfer to end: something of it is under way on them,
  /// or waits to be taken, which the cut takes away.
  std::set<DeviceId> give_up_messages();
  /// Fails if it is past one of its limits. Gives give_up_messages() if it has failed and `grace`
  /// has passed since the last of its messages ended.
  std::set<DeviceId> check_deadline(TimePoint now, Nanoseconds grace);
  TimePoint next_check(Nanoseconds grace) const;

 private:
  struct UnderWay {
    std::uint32_t chunk;
    bool held;  // by the receiver
  };
  struct Child {
    DeviceId device;
    bool network = false;  // sends to it are ordered by EgressOrder
    std::uint32_t next = 0, done = 0;
    std::vector<UnderWay> under_way = {};  // at most a window
  };
  struct ChunkState {
    SlotPool::Slot slot;
    std::uint32_t users = 0;
    std::uint32_t crc = 0;  // as it came, or as it was taken here; 0: not taken
    bool seen = false;
    bool in_place = false;  // in the destinations
    bool verified = false;  // before it landed, where its bytes were read
  };
  struct Held {
    MessageId message;
    std::uint32_t chunk;
  };
  struct StreamState {
    const FlowRole* stream = nullptr;
    // in the sources (root of kDeliver, kContribution, kSum) or the destinations, if it goes there
    SegmentedView view;
    SegmentedView term;         // in the sources: what is added to each chunk, if anything is
    DType dtype = DType::kF32;  // of what is added
    std::vector<Child> children;
    std::vector<ChunkState> chunks;
    // in the order they became available to the children; not used if all are from the start
    std::vector<std::uint32_t> ready;
    std::vector<Held> held;
    std::uint32_t landed = 0, receiving = 0, slots_in_use = 0;
    bool all_ready = false;
  };
  struct ReductionState {
    const Reduction* reduction = nullptr;
    StridedView source, destination;
    std::vector<std::uint32_t> arrived;       // terms per chunk
    std::vector<std::uint32_t> term_streams;  // stream of each rank's term; own rank: unused
    std::vector<std::uint32_t> result_streams;
    std::uint32_t prefix = 0;  // all chunks before it are reduced
    std::vector<bool> reduced;
  };

  std::size_t chunk_size(const FlowRole& stream, std::uint32_t chunk) const;
  std::optional<std::uint32_t> find_stream(std::uint32_t flow) const;
  /// The stream whose children get its chunks as this flow.
  std::optional<std::uint32_t> find_sending(std::uint32_t flow) const;
  bool may_take(const StreamState& state, std::uint32_t chunk) const;
  void take(std::uint32_t index, std::uint32_t chunk, MessageId message,
            std::span<const std::byte> payload);
  void landed(std::uint32_t index, std::uint32_t chunk);
  /// The views of a stream; throws Error(kInvalidArgument) where the part contradicts itself.
  void open_stream(StreamState& state);
  void open_sum(StreamState& state);
  /// Turns a partial sum that has landed in a slot into the next one.
  void add_term(StreamState& state, std::uint32_t chunk);
  /// Of a received chunk: in its slot, or in one run of a destination.
  std::span<const std::byte> where_it_landed(StreamState& state, std::uint32_t chunk);
  /// Compares a chunk that has landed with its sum. False: it differs, and the transfer has failed.
  bool verify(StreamState& state, std::uint32_t chunk, std::span<const std::byte> bytes);
  /// Unpacks a chunk that has landed in a slot.
  void put_in_place(StreamState& state, std::uint32_t chunk);
  void reduce(std::uint32_t index, std::uint32_t chunk);
  /// Sends what can be sent: at once inside the host, in its turn over the network.
  void pump(std::uint32_t index);
  std::uint32_t next_chunk(const StreamState& state, const Child& child) const {
    return state.all_ready ? child.next : state.ready[child.next];
  }
  bool can_send(const StreamState& state, const Child& child) const;
  /// Sends one more chunk if it can be sent.
  bool send_next(std::uint32_t index, std::uint32_t child);
  void take_held(std::uint32_t index);
  /// Where the bytes that a stream sends lie.
  std::span<const std::span<const std::byte>> sent_from(const StreamState& state) const {
    return state.all_ready ? sources_ : landed_in_;
  }
  bool in_place(std::uint32_t tensor) const;
  /// The bytes of a chunk that can be sent, packed if need be.
  std::span<const std::byte> chunk_bytes(StreamState& state, std::uint32_t chunk);
  /// Copies a chunk out of the box into a slot, for all children.
  void pack(StreamState& state, std::uint32_t chunk);
  void drop_user(std::uint32_t index, std::uint32_t chunk);
  /// See TransferReport.
  std::vector<LandedChunks> landed() const;
  void one_done();
  void finish_if_over();
  std::string describe_missing() const;

  const TransferContext context_;
  const DevicePart& part_;
  const TransferId id_;
  const std::uint64_t order_;
  const std::vector<std::span<const std::byte>> sources_;
  const std::vector<std::span<std::byte>> destinations_;
  const std::vector<std::span<const std::byte>> landed_in_;  // destinations_, for reading
  const TimePoint started_;
  const TransferLimits limits_;
  TimePoint moved_;                  // when a chunk last left or landed
  std::optional<TimePoint> moving_;  // when the first bytes were known to come, if any had to
  std::vector<StreamState> streams_;
  std::vector<ReductionState> reductions_;
  // chunks to land, to send per child, to reduce; and 1 while begin() runs
  std::uint64_t remaining_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
  std::optional<Error> error_;
  bool over_ = false;
};

}  // namespace weft::transfer
