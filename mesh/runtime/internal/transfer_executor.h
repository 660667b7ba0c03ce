#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Interface of the ways in which an execution's transfers move. EngineTransfers uses the transfer
/// engine, through host memory; CollectiveTransfers uses the GPUs' collective library. To add a
/// way, add an alternative of Transfer::device_work and an implementation.
///
///   start ──▶ (bytes move; poll) ──▶ wait: later compute work follows the transfer
///
/// Reports go to the timeline of the execution's DeviceQueue, errors become its failure. Owner's
/// thread only; nothing blocks.
class TransferExecutor {
 public:
  virtual ~TransferExecutor() = default;

  /// Begins this device's part once the compute work queued so far is done. `source` and
  /// `destination`: the buffers that `start` names. Returns false if there is no room yet: call
  /// again after `wake`.
  virtual bool start(const Start& start, std::span<std::byte> source,
                     std::span<std::byte> destination) = 0;
  /// Returns whether compute work may use the buffers without waiting.
  virtual bool done(std::uint32_t handle) const = 0;
  /// Makes compute work queued from now on wait for the transfer. Returns false if the host must
  /// see more of the transfer first: call again after `wake`.
  virtual bool wait(std::uint32_t handle) = 0;

  /// Throws errors for which `wake` is not called. Call now and then while wants_polling().
  virtual void poll() {}
  virtual bool wants_polling() const { return false; }
  /// Cancels running transfers, and everything else that its engine or queue carries. Buffers are
  /// free when the execution's callback queue is quiescent.
  virtual void cancel(const Error& why) = 0;

  /// Returns the transfer at which the device is, if it runs them in order.
  virtual std::optional<transfer::OperationKey> position() const { return std::nullopt; }
  /// Returns text such as "with device collectives at 'h1.out front->back' of microbatch 3, then 2
  /// more, ", or "".
  virtual std::string describe_position() const { return ""; }
};

}  // namespace weft::mesh
