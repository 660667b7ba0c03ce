#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "mesh/executor/internal/program_runner.h"

namespace weft::mesh {

/// Transfers that devices run beside steps, one at a time: a batch of a checkpoint, or state for
/// backup devices (a replication).
///
/// Any thread. A checkpoint comes from a thread of its own; all else comes from the thread that
/// runs the steps, and never waits for a checkpoint, except cancel_replication().
class BackgroundTransfers final {
 public:
  BackgroundTransfers(const DeviceGroup& devices, ProgramRunner& runner)
      : devices_(devices), runner_(runner) {}

  /// Runs a checkpoint's transfer to the driver, after the replication if one is running. Throws
  /// Error(kCancelled) soon after a stop request. While a step runs, its own watch judges progress;
  /// between steps, the transfer is watched itself.
  void gather(const std::string& program, CheckpointEndpoint& driver, const std::stop_token& stop);

  /// Starts a replication. Returns false if another transfer is running.
  bool try_replicate(const std::string& program);
  /// Returns whether the replication that try_replicate() has started is complete. Afterwards, and
  /// after its error, which this function throws, another may start.
  bool try_finish_replication();
  /// Cancels the replication, if any.
  void cancel_replication();

 private:
  void wait_for_replication(const std::stop_token& stop);
  /// Throws Error(kCancelled) on a stop request. Otherwise polls `watch` unless a step runs.
  void poll(StallMonitor& watch, const std::stop_token& stop) const;

  const DeviceGroup& devices_;
  ProgramRunner& runner_;
  std::mutex mutex_;                                 ///< Held during a gather.
  std::optional<actors::Future<void>> replication_;  // guarded by mutex_
  StepRequest replication_request_;                  // guarded by mutex_
};

}  // namespace weft::mesh
