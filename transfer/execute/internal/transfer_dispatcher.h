#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/log/log_limit.h"
#include "transfer/execute/active_work.h"
#include "transfer/execute/engine_options.h"
#include "transfer/execute/internal/early_messages.h"
#include "transfer/execute/internal/egress_scheduler.h"
#include "transfer/execute/internal/ended_transfers.h"
#include "transfer/execute/internal/engine_statistics.h"
#include "transfer/execute/internal/operation_table.h"
#include "transfer/execute/peers.h"
#include "transfer/execute/slot_pool.h"
#include "transfer/execute/transfer_port.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/wire/wire.h"

namespace weft::transfer {

/// Implementation of TransferEngine on its transfer thread. Routes events to transfers, and ends
/// transfers.
///
///   wire ─ message ─▶ kMessageHandlers ─▶ running work | EarlyMessages | EndedTransfers: dropped
///   wire ─ end of an operation ─▶ OperationTable ─▶ running work
///   running work ─ schedule() ─▶ EgressScheduler ─ send() ─▶ wire
///
/// Owned by TransferEngine. Transfer thread only, except counters(): any thread.
class TransferDispatcher final : public WireEvents, public TransferPort {
 public:
  using Callback = std::function<void(const TransferReport&)>;

  TransferDispatcher(Wire& wire, const Clock& clock, const EngineOptions& options);

  void connect(DeviceId peer, HostId host, std::span<const std::byte> address);
  /// `low_priority` is TransferLimits::low_priority.
  void start(const TransferId& id, std::span<const DeviceId> peers, bool low_priority,
             const MakeWork& make, Callback callback);
  void cancel_all(const Error& error);
  void cancel(std::uint64_t epoch, std::uint64_t step, const Error& error);
  void peer_died(DeviceId peer, const Error& error);
  /// Cuts each connection with an own message in flight, and logs them. Called at shutdown.
  void drop_pending_connections();
  /// Runs the wire's progress, deadlines and callbacks. Returns the number of things done.
  std::size_t step();
  /// Returns true if no transfer and no own message is in progress.
  bool idle() const { return transfers_.empty() && operations_.empty() && finished_.empty(); }
  EngineCounters counters() const { return statistics_.counters(); }

 private:
  struct RunningTransfer {
    std::unique_ptr<ActiveWork> work;
    Callback callback;
  };
  /// Handler of messages whose header begins with `magic`. A new kind is a row of kMessageHandlers.
  struct MessageHandler {
    std::uint32_t magic;
    void (TransferDispatcher::*arrived)(const Message& message, const ChunkHeader& header);
  };
  static const std::array<MessageHandler, 8> kMessageHandlers;
  struct FinishedTransfer {
    TransferReport report;
    Callback callback;  // empty: the callback of the transfer, which is still in transfers_
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
  void drop_message(MessageId message, DeviceId sender, std::string_view why) override;
  void schedule(ActiveWork& work, std::uint32_t stream) override { egress_.schedule(work, stream); }
  void failed(ActiveWork& work, const std::set<DeviceId>& tell) override;
  void finished(ActiveWork& work) override;

  /// Returns true if EgressOrder orders sends to this peer. Stays true after the wire has lost the
  /// peer.
  bool is_network(DeviceId peer) const {
    return options_.egress.device_streams != 0 && peers_.is_over_network(peer);
  }
  /// Returns the running work of a transfer, or null.
  ActiveWork* find_work(const TransferId& id) const;
  /// Returns why a transfer with these peers cannot start now, if there is a reason.
  std::optional<Error> find_obstacle(const TransferId& id, std::span<const DeviceId> peers);
  /// Reports a failed transfer, which was not started, at the next step().
  void report_failure(const TransferId& id, Error error, Callback callback);
  /// Drops what belongs to earlier epochs, if `epoch` is new.
  void begin_epoch(std::uint64_t epoch);
  void run(std::unique_ptr<ActiveWork> work, Callback callback);
  /// Sends the error to `peer`: this transfer has failed here.
  void send_abort(DeviceId peer, const TransferId& id, const Error& error);
  /// Counts and logs a dropped message of `sender`, if that is known.
  void count_dropped(std::optional<DeviceId> sender, std::string_view why);
  void cut_connection(DeviceId peer);

  /// Handles a message of a transfer or an exchange, which may not have been started here.
  void work_arrived(const Message& message, const ChunkHeader& header);
  void refusal_arrived(const Message& message, const ChunkHeader& header);
  void announcement_arrived(const Message& message, const ChunkHeader& header);
  void error_arrived(const Message& message, const ChunkHeader& header);
  void keep_early(const Message& message, const ChunkHeader& header);

  /// Notifies the sender that its chunk is held, if the sender orders its sends.
  void notify_refused(DeviceId sender, const ChunkHeader& header);
  void abort_arrived(const TransferId& id, std::span<const std::byte> payload);
  void release_early(const TransferId& id);
  void lose(DeviceId peer, const Error& error);
  void check_deadlines();
  std::size_t run_callbacks();
  /// Returns the error that a transfer reports for a failed send or receive.
  Error explain(DeviceId peer, const Error& error) const;

  Wire& wire_;
  const Clock& clock_;
  const EngineOptions options_;
  LogLimit drops_;
  SlotPool slots_;
  Peers peers_;
  EgressScheduler egress_;
  OperationTable operations_;
  EarlyMessages early_;
  EndedTransfers ended_;
  std::unordered_map<TransferId, RunningTransfer> transfers_;
  std::vector<FinishedTransfer> finished_;
  std::uint64_t epoch_ = 0;
  TimePoint next_check_ = TimePoint::max();
  EngineStatistics statistics_;
};

}  // namespace weft::transfer
