#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "transfer/execute/active_work.h"
#include "transfer/execute/engine_options.h"
#include "transfer/execute/transfer_limits.h"
#include "transfer/execute/transfer_report.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

class TransferDispatcher;

/// Executes the parts that plans give to one device: sends, receives, passes on, copies and
/// reduces.
///
/// One per device; owns its wire. Any thread may call anything, except poll() (kStepped: one
/// thread). Callbacks run on the transfer thread (kStepped: inside poll() or the destructor), may
/// start further transfers, must not block and must not throw.
///
/// All transfers under way proceed together, in any order of starting; where they compete for the
/// network, the earlier one goes first (see TransferLimits::stands_back), and none holds the link
/// that cannot use it. A chunk that arrives before its transfer is started here waits: small ones
/// in the wire's bounded buffer, others at their sender.
class TransferEngine final {
 public:
  using Callback = std::function<void(const TransferReport&)>;

  TransferEngine(std::unique_ptr<Wire> wire, const Clock& clock, EngineOptions options = {});
  /// Cancels what is under way; all callbacks have run when it returns, but those of messages that
  /// do not even end when they are cut off. Waits for its last messages no longer than
  /// EngineOptions::last_messages, then cuts their connections and logs them.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  DeviceId self() const;
  /// What other engines need to connect() to this one. Opaque bytes, to be carried by the control
  /// plane.
  std::vector<std::byte> address() const;
  /// Makes a peer reachable. Both sides must do it before a transfer between them starts. An
  /// address that is wrong shows as the peer being lost. Connecting again after a loss forgets the
  /// loss.
  void connect(DeviceId peer, HostId host, std::vector<std::byte> address);

  /// Starts this device's part of a transfer; the other devices of the plan start theirs under the
  /// same id, at any time.
  ///
  /// One source and one destination per tensor of the part, of its source_bytes() and
  /// destination_bytes(): empty where this device holds or wants nothing; one may be the other for
  /// an all-reduce. `part` and all buffers' memory stay valid and sources unchanged until the
  /// callback has begun; after it the engine touches none. The callback comes exactly once: ok, the
  /// peer's death (kPeerDied), kDeadlineExceeded (see TransferLimits), the error of cancel_all(),
  /// kIncompatible when the plans of two devices differ, or kDataLoss for bytes that were damaged
  /// on their way. After an error the report says what has landed: connections to devices that live
  /// stay as they are, and a repair can be started under another id. Throws Error(kInvalidArgument)
  /// when buffers do not fit the part.
  void start(const DevicePart& part, const TransferId& id,
             std::span<const std::span<const std::byte>> sources,
             std::span<const std::span<std::byte>> destinations, const TransferLimits& limits,
             Callback callback);

  /// The same for other work than planned transfers (see ActiveWork), with these devices: `make` is
  /// called on the transfer thread.
  void start(const TransferId& id, std::vector<DeviceId> peers, bool stands_back, MakeWork make,
             Callback callback);
  /// Runs `task` on the transfer thread, after what was asked before.
  void post(std::function<void()> task);

  /// Ends every transfer under way with `error`; buffers are free once their callbacks have run.
  /// Connections that were carrying something are cut (their peers see this device as lost);
  /// connect() again before using them.
  void cancel_all(Error error);
  /// Ends the transfers under way of this step of this epoch with `error`, here and on the devices
  /// that still take part in them; others go on. A connection is cut only if what it carries of
  /// them has not ended within EngineOptions::grace.
  void cancel(std::uint64_t epoch, std::uint64_t step, Error error);
  /// The control plane knows that `peer` is dead: the transfers that still need it end with
  /// `error`.
  void peer_died(DeviceId peer, Error error);

  EngineCounters counters() const;
  /// See Wire: moves also while a large chunk is on its way, of which counters() tells at its end.
  std::uint64_t network_bytes_received() const;

  /// kStepped only: does what can be done now. False when there was nothing to do.
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
  std::jthread thread_;
};

}  // namespace weft::transfer
