#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Carries the transfers of one execution that go one way: HostTransfers by the transfer engine,
/// through host memory; LibraryTransfers by the library of the GPUs. A new way is an alternative of
/// Transfer::work and another of these.
///
///   start ──▶ (bytes move; poll) ──▶ wait: what compute is given next comes behind the transfer
///
/// What happens to a transfer is told to the execution's DeviceQueue: its report to the timeline,
/// its error as the execution's failure. Owner's thread only; nothing blocks.
class TransferExecutor {
 public:
  virtual ~TransferExecutor() = default;

  /// Begins this device's part when what compute was given so far is done. Buffers as Start names
  /// them. False: there is no room for it yet; call it again after news.
  virtual bool start(const Start& start, std::span<std::byte> source,
                     std::span<std::byte> destination) = 0;
  /// Whether compute may use the buffers without waiting.
  virtual bool done(std::uint32_t handle) const = 0;
  /// What compute is given from now on comes behind the transfer. False: the host must see more of
  /// it first; call it again after news.
  virtual bool wait(std::uint32_t handle) = 0;

  /// Throws the error of what nobody wakes for. To be called now and then while wants_polling().
  virtual void poll() {}
  virtual bool wants_polling() const { return false; }
  /// Ends what is under way, and whatever else its engine or queue carries. Buffers are free when
  /// the execution's inbox is quiescent.
  virtual void cancel(const Error& why) = 0;

  /// The transfer that the device stands at, where it takes them one after the other.
  virtual std::optional<transfer::OperationKey> position() const { return std::nullopt; }
  /// "with device collectives at 'h1.out front->back' of microbatch 3, then 2 more, "; empty where
  /// there is nothing to say.
  virtual std::string describe_position() const { return ""; }
};

}  // namespace weft::mesh
