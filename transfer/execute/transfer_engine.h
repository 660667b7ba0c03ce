#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/thread.h"
#include "transfer/execute/active_work.h"
#include "transfer/execute/engine_options.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

class TransferDispatcher;

/// Executes the parts that plans assign to one device: sends, receives, forwards, copies and
/// reduces.
///
/// There is one engine per device; it owns its wire. Any thread may call any function except poll()
/// (kStepped: one thread only). Callbacks run on the transfer thread (kStepped: inside poll() or
/// the destructor). They may start further transfers, must not block and must not throw.
///
/// All transfers in progress proceed together, in whatever order they started. Where they compete
/// for the network, the earlier one goes first (see TransferLimits::low_priority). A transfer that
/// cannot use the link does not block it. A chunk that arrives before its transfer is started here
/// waits: small chunks in the wire's bounded buffer, others at their sender.
class TransferEngine final {
 public:
  using Callback = std::function<void(const TransferReport&)>;

  TransferEngine(std::unique_ptr<Wire> wire, const Clock& clock, EngineOptions options = {});
  /// Cancels all transfers and runs their callbacks. Waits up to EngineOptions::shutdown_grace for
  /// messages in flight, then cuts and logs their connections. Callbacks of transfers whose
  /// messages do not end even then do not run.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  DeviceId self() const;
  /// Returns the address that other engines pass to connect(). Opaque bytes, carried by the control
  /// plane.
  std::vector<std::byte> address() const;
  /// Makes a peer reachable. Both sides must call it before a transfer between them starts. A wrong
  /// address shows as a loss of the peer. Connecting again forgets an earlier loss.
  void connect(DeviceId peer, HostId host, std::vector<std::byte> address);

  /// Starts this device's part of a transfer. The other devices of the plan start their parts under
  /// the same id, at any time.
  ///
  /// Takes one source and one destination per tensor of the part, of source_bytes() and
  /// destination_bytes() bytes. A buffer is empty where the device holds or needs nothing. For an
  /// all-reduce source and destination may be the same buffer. `part` and all buffers stay valid,
  /// and sources unchanged, until the callback begins; afterwards the engine does not touch them.
  ///
  /// The callback runs exactly once. Its outcome is ok or one of: the peer's death (kPeerDied),
  /// kDeadlineExceeded (see TransferLimits), the error of cancel_all() or cancel(), kIncompatible
  /// if the plans of two devices differ, kDataLoss for bytes damaged in transit. After an error the
  /// report says which chunks have landed. Connections to live devices stay open, and a repair can
  /// start under another id.
  ///
  /// Throws Error(kInvalidArgument) if the buffers do not fit the part.
  void start(const DevicePart& part, const TransferId& id,
             std::span<const std::span<const std::byte>> sources,
             std::span<const std::span<std::byte>> destinations, const TransferLimits& limits,
             Callback callback);

  /// Starts other work than planned transfers (see ActiveWork) with the devices `peers`. `make` is
  /// called on the transfer thread.
  void start(const TransferId& id, std::vector<DeviceId> peers, bool low_priority, MakeWork make,
             Callback callback);
  /// Runs `task` on the transfer thread, after all earlier requests.
  void post(std::function<void()> task);

  /// Ends every transfer in progress with `error`; buffers are free once the callbacks have run.
  /// Cuts connections that were carrying something, so their peers see this device as lost. Call
  /// connect() again before using them.
  void cancel_all(Error error);
  /// Ends the transfers in progress of this step and epoch with `error`, here and on the devices
  /// that still take part in them. Other transfers continue. A connection is cut only if one of its
  /// messages has not ended within EngineOptions::failure_grace.
  void cancel(std::uint64_t epoch, std::uint64_t step, Error error);
  /// Reports that the control plane has found `peer` dead. Transfers that still need it end with
  /// `error`.
  void peer_died(DeviceId peer, Error error);

  EngineCounters counters() const;
  /// Returns Wire::network_bytes_received(). It advances while a large chunk arrives, whereas
  /// counters() counts a chunk once it is complete.
  std::uint64_t network_bytes_received() const;

  /// Does all work that is possible now. Returns false if there was none. kStepped only.
  bool poll();

 private:
  using Command = std::function<void(TransferDispatcher&)>;
  void submit(Command command);
  bool run_once();
  void run();

  const EngineOptions options_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<TransferDispatcher> dispatcher_;  // transfer thread only
  std::mutex mutex_;
  std::vector<Command> commands_;  // guarded by mutex_
  std::atomic<bool> stopping_ = false;
  Thread thread_;
};

}  // namespace weft::transfer
