#pragma once

#include <array>
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
#include "transfer/execute/active_work.h"
#include "transfer/execute/engine_options.h"
#include "transfer/execute/internal/egress_order.h"
#include "transfer/execute/peers.h"
#include "transfer/execute/rate_meter.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// What a TransferEngine does on its one thread: finds the transfer that an event belongs to, and
/// ends transfers.
///
/// Owner: TransferEngine. Transfer thread only, but counters(): any thread.
class TransferDispatcher final : public WireEvents, public TransferPort {
 public:
  using Callback = std::function<void(const TransferReport&)>;

  TransferDispatcher(Wire& wire, const Clock& clock, const EngineOptions& options);

  void connect(DeviceId peer, HostId host, std::span<const std::byte> address);
  /// `stands_back`: see TransferLimits.
  void start(const TransferId& id, std::span<const DeviceId> peers, bool stands_back,
             const MakeWork& make, Callback callback);
  void cancel_all(const Error& error);
  void cancel(std::uint64_t epoch, std::uint64_t step, const Error& error);
  void peer_died(DeviceId peer, const Error& error);
  /// For the end: cuts each connection that carries a message of ours which has not ended, and logs
  /// which.
  void cut_pending();
  /// Progress of the wire, deadlines, callbacks. The number of things done.
  std::size_t step();
  /// No transfer and no message of ours is under way.
  bool idle() const { return transfers_.empty() && pending_ == 0 && finished_.empty(); }
  EngineCounters counters() const;

 private:
  struct Running {
    std::unique_ptr<ActiveWork> work;
    Callback callback;
  };
  struct Operation {
    enum class Kind : std::uint8_t { kFree, kSendChunk, kReceiveChunk, kSendNote, kReceiveAbort };
    Kind kind = Kind::kFree;
    DeviceId peer;
    ActiveWork* work = nullptr;  // outlives the operation: it waits for it
    PendingChunk what;
    std::vector<std::byte> payload;  // of an abort
    TransferId id;                   // of an abort received
    std::uint64_t bytes = 0;         // of a chunk
  };
  struct Early {
    MessageId message;
    DeviceId sender;
    ChunkHeader header;
    std::size_t bytes;
  };
  /// What is done with messages whose header begins with `magic`. A new kind is a row of
  /// kMessageKinds.
  struct MessageKind {
    std::uint32_t magic;
    void (TransferDispatcher::*arrived)(const Message& message, const ChunkHeader& header);
  };
  static const std::array<MessageKind, 8> kMessageKinds;
  struct Ending {
    TransferReport report;
    Callback callback;  // none: that of the transfer, which is still in transfers_
  };

  void message_arrived(const Message& message) override;
  void send_finished(Token token, const Outcome<void>& outcome) override;
  void receive_finished(Token token, const Outcome<void>& outcome) override;
  void peer_lost(DeviceId peer, const Error& error) override;
  void message_refused(std::optional<DeviceId> claimed, std::string_view why) override {
    count_dropped(claimed, why);
  }

  void send(ActiveWork& work, const OutgoingChunk& chunk) override;
  void send_note(DeviceId peer, const ChunkHeader& note) override;
  void receive(ActiveWork& work, DeviceId sender, const PendingChunk& what, MessageId message,
               std::span<std::byte> buffer) override;
  void take(MessageId message, DeviceId sender, std::size_t bytes) override;
  void release(MessageId message) override { wire_.release(message); }
  void refuse(MessageId message, DeviceId sender, std::string_view why) override;
  void schedule(ActiveWork& work, std::uint32_t stream) override;
  void failed(ActiveWork& work, const std::set<DeviceId>& tell) override;
  void finished(ActiveWork& work) override;

  /// Sends to this peer are ordered. Also of one that the wire has lost already and peer_lost() has
  /// not yet told of.
  bool is_network(DeviceId peer) const {
    return options_.egress.device_streams != 0 && peers_.is_over_network(peer);
  }
  /// Tells `peer` that this transfer has failed here and why.
  void send_abort(DeviceId peer, const TransferId& id, const Error& error);
  void count_received(DeviceId peer, std::size_t bytes);
  /// A message of `sender`, if that is known, has been thrown away: counts and tells it.
  void count_dropped(std::optional<DeviceId> sender, std::string_view why);
  void drop(DeviceId peer);

  /// A message of a transfer or an exchange, which perhaps has not been started here.
  void work_arrived(const Message& message, const ChunkHeader& header);
  void hold_arrived(const Message& message, const ChunkHeader& header);
  void beginning_arrived(const Message& message, const ChunkHeader& header);
  void error_arrived(const Message& message, const ChunkHeader& header);
  void keep_early(const Message& message, const ChunkHeader& header);
  std::vector<Early> take_early(std::unordered_map<TransferId, std::vector<Early>>::iterator found);

  Token new_operation(Operation operation);
  Operation take_operation(Token token);
  /// Tells the sender of a chunk that stays with it for now, if the sender cares.
  void tell_held(DeviceId sender, const ChunkHeader& header);
  /// Tells the order what the stream wants and does now.
  void update_egress(const ActiveWork& work, std::uint32_t stream);
  void send_what_may_be_sent();
  void abort_arrived(const TransferId& id, std::span<const std::byte> payload);
  void release_early(const TransferId& id);
  void lose(DeviceId peer, const Error& error);
  void remember_over(const TransferId& id);
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
  std::unordered_map<std::uint64_t, ActiveWork*> by_order_;
  SlotPool slots_;
  Peers peers_;
  std::unordered_map<TransferId, Running> transfers_;
  std::unordered_map<TransferId, std::vector<Early>> early_;
  std::map<DeviceId, std::size_t> early_from_;     // how many of them a device has sent
  std::set<DeviceId> overrun_;                     // who wanted to send more than may wait
  std::unordered_map<TransferId, Error> aborted_;  // told before they were started here
  // whose bytes were coming before they were started here
  std::unordered_set<TransferId> begun_;
  std::unordered_set<TransferId> over_;  // what still arrives for these is released
  std::deque<TransferId> over_order_;    // bounds over_ and aborted_
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::size_t pending_ = 0;
  std::vector<Ending> finished_;
  std::uint64_t epoch_ = 0;
  TimePoint next_check_ = TimePoint::max();

  mutable std::mutex counters_mutex_;
  EngineCounters counters_;  // guarded by counters_mutex_
};

}  // namespace weft::transfer
