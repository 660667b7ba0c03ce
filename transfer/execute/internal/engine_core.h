#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/log/log_limit.h"
#include "transfer/execute/engine_options.h"
#include "transfer/execute/internal/active_transfer.h"
#include "transfer/execute/internal/egress_order.h"
#include "transfer/execute/internal/slot_pool.h"
#include "transfer/execute/rate_meter.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// What a TransferEngine does on its one thread: finds the transfer that an event belongs to, and
/// ends transfers.
///
/// Owner: TransferEngine. Transfer thread only, but counters(): any thread.
class EngineCore final : public WireEvents {
 public:
  using Callback = std::function<void(const TransferReport&)>;

  EngineCore(Wire& wire, const Clock& clock, const EngineOptions& options);

  void connect(DeviceId peer, HostId host, std::span<const std::byte> address);
  void start(const DevicePart& part, const TransferId& id, Buffers buffers,
             const TransferLimits& limits, Callback callback);
  void cancel_all(const Error& error);
  void peer_died(DeviceId peer, const Error& error);
  /// Progress of the wire, deadlines, callbacks. The number of things done.
  std::size_t step();
  /// No transfer and no message of ours is under way.
  bool idle() const { return transfers_.empty() && pending_ == 0 && finished_.empty(); }
  EngineCounters counters() const;

  // For ActiveTransfer.
  SlotPool& slots() { return slots_; }
  TimePoint now() const { return clock_.now(); }
  bool verifies() const { return options_.checksum == EngineOptions::Checksum::kVerify; }
  void send_chunk(ActiveTransfer& transfer, DeviceId peer, const PendingChunk& what,
                  std::uint32_t flow, std::uint32_t crc, std::span<const std::byte> payload);
  void receive_chunk(ActiveTransfer& transfer, DeviceId peer, const PendingChunk& what,
                     MessageId message, std::span<std::byte> buffer);
  void release(MessageId message) { wire_.release(message); }
  /// A message without payload, if the peer is connected.
  void send_note(DeviceId peer, const ChunkHeader& note);
  /// Sends to this peer are ordered. Also of one that the wire has lost already and peer_lost() has
  /// not yet told of.
  bool is_network(DeviceId peer) const {
    return options_.egress.device_streams != 0 && over_network_.contains(peer);
  }
  /// A stream's wants or moves have changed: sends over the network what may be sent now.
  void offer(const ActiveTransfer& transfer, std::uint32_t stream);
  void count_received(DeviceId peer, std::size_t bytes);
  /// Tells `peer` that this transfer has failed here and why, so that it need not wait for its
  /// deadline.
  void send_abort(DeviceId peer, const TransferId& id, const Error& error);
  void drop(DeviceId peer);
  /// A message of `sender`, if that is known, has been thrown away: counts and tells it.
  void count_dropped(std::optional<DeviceId> sender, std::string_view why);
  /// The transfer has failed; what still arrives for it is released.
  void failed(ActiveTransfer& transfer);
  /// The transfer has nothing under way any more; its callback is due.
  void finished(ActiveTransfer& transfer);
  /// "device 2 (host 1)".
  std::string name_of(DeviceId peer) const;

 private:
  struct Operation {
    enum class Kind : std::uint8_t { kFree, kSendChunk, kReceiveChunk, kSendNote, kReceiveAbort };
    Kind kind = Kind::kFree;
    DeviceId peer;
    ActiveTransfer* transfer = nullptr;  // outlives the operation: it waits for it
    PendingChunk what;
    std::vector<std::byte> payload;   // of an abort
    TransferId id;                    // of an abort received
    std::uint64_t network_bytes = 0;  // of a chunk that is sent to another host
  };
  struct Early {
    MessageId message;
    DeviceId sender;
    ChunkHeader header;
    std::size_t bytes;
  };
  struct Ending {
    TransferReport report;
    Callback callback;
  };

  void message_arrived(const Message& message) override;
  void send_finished(Token token, const Outcome<void>& outcome) override;
  void receive_finished(Token token, const Outcome<void>& outcome) override;
  void peer_lost(DeviceId peer, const Error& error) override;
  void message_refused(std::optional<DeviceId> claimed, std::string_view why) override {
    count_dropped(claimed, why);
  }

  void error_arrived(const Message& message, const TransferId& id);
  void keep_early(const Message& message, const ChunkHeader& header);
  std::vector<Early> take_early(std::unordered_map<TransferId, std::vector<Early>>::iterator found);

  Token new_operation(Operation operation);
  Operation take_operation(Token token);
  /// Tells the sender of a chunk that stays with it for now, if the sender cares.
  void tell_held(DeviceId sender, const ChunkHeader& header);
  void send_what_may_be_sent();
  void abort_arrived(const TransferId& id, std::span<const std::byte> payload);
  void release_early(const TransferId& id);
  void lose(DeviceId peer, const Error& error);
  void remember_failed(const TransferId& id);
  void check_deadlines();
  std::size_t run_callbacks();
  /// What a failed send or receive means to whoever started the transfer.
  Error explain(DeviceId peer, const Error& error) const;

  Wire& wire_;
  const Clock& clock_;
  const EngineOptions options_;
  EgressOrder egress_;
  RateMeter egress_rate_;
  LogLimit drops_;
  std::size_t peak_network_streams_ = 0;
  /// Comes after the orders of all others.
  static constexpr std::uint64_t kStandsBack = std::uint64_t{1} << 63;
  std::uint64_t next_order_ = 0;
  std::unordered_map<std::uint64_t, ActiveTransfer*> by_order_;
  SlotPool slots_;
  std::unordered_map<TransferId, std::unique_ptr<ActiveTransfer>> transfers_;
  std::unordered_map<TransferId, std::vector<Early>> early_;
  std::map<DeviceId, std::size_t> early_from_;     // how many of them a device has sent
  std::set<DeviceId> overrun_;                     // who wanted to send more than may wait
  std::unordered_map<TransferId, Error> aborted_;  // told before they were started here
  // whose bytes were coming before they were started here
  std::unordered_set<TransferId> begun_;
  std::unordered_set<TransferId> failed_;  // what still arrives for these is released
  std::deque<TransferId> failed_order_;    // bounds failed_ and aborted_
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::size_t pending_ = 0;
  std::map<DeviceId, HostId> hosts_;
  std::set<DeviceId> neighbours_;    // on this host
  std::set<DeviceId> over_network_;  // by tcp
  std::map<DeviceId, Error> lost_;
  std::set<DeviceId> cut_;  // from here, since they were connected
  std::vector<Ending> finished_;
  std::uint64_t epoch_ = 0;
  TimePoint next_check_ = TimePoint::max();

  mutable std::mutex counters_mutex_;
  EngineCounters counters_;  // guarded by counters_mutex_
};

}  // namespace weft::transfer
