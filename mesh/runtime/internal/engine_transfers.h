#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mesh/runtime/internal/device_queue.h"
#include "mesh/runtime/internal/transfer_executor.h"
#include "transfer/execute/transfer_engine.h"

namespace weft::mesh {

/// Transfers of one execution that the transfer engine carries.
///
///   memory that the host may touch:
///     send:     compute ──event──▶ engine
///     receive:  engine ──report──▶ compute
///   memory of the device:
///     send:     compute ──event──▶ copy out to a staging block ──event──▶ engine
///     receive:  engine ──report──▶ copy in from a staging block ──event──▶ compute
///
/// Owner's thread only.
class EngineTransfers final : public TransferExecutor {
 public:
  /// Identity and priority of the transfers in the engine.
  struct TransferIdentity {
    std::uint64_t epoch = 0;
    std::uint64_t run = 0;
    bool low_priority = false;  ///< See TransferLimits::low_priority.
  };
  /// All references must outlive it.
  EngineTransfers(transfer::TransferEngine& engine, const Program& program, DeviceQueue& device,
                  const TransferIdentity& naming);

  bool start(const Start& start, std::span<std::byte> source,
             std::span<std::byte> destination) override;
  bool done(std::uint32_t handle) const override;
  bool wait(std::uint32_t handle) override;
  void cancel(const Error& why) override;

 private:
  /// Limit of staged bytes at which checkpoint transfers wait. A checkpoint moves all of a device's
  /// state, which must not be in host memory at once.
  static constexpr std::size_t kMaxStagedBytes = std::size_t{256} << 20;

  struct UnderWay {
    const Start* start = nullptr;
    /// Memory that the engine reads and writes: the buffers, or staging blocks in their place.
    std::span<const std::byte> source;
    std::span<std::byte> destination;
    StagingPool::Block source_block, destination_block;
    std::span<std::byte> landing;       ///< Device memory for the bytes of `destination_block`.
    std::shared_ptr<const Event> free;  ///< Done when `landing` may be written.
    /// Done when `landing` has been written.
    std::shared_ptr<const Event> landed;
    bool reported = false;  ///< True once the engine has reported the end.
  };

  const Transfer& transfer_of(std::uint32_t handle) const {
    return program_.transfers[transfers_[handle].start->transfer];
  }
  /// Returns whether compute work reads or writes the buffer.
  bool is_computed(std::int32_t buffer) const;
  /// Takes staging blocks for buffers in device memory, and starts to copy the source to the host.
  void stage(std::uint32_t handle);
  void give_to_engine(std::uint32_t handle);
  void engine_reported(std::uint32_t handle, const transfer::TransferReport& report);

  transfer::TransferEngine& engine_;
  const Program& program_;
  DeviceQueue& device_;
  const TransferIdentity naming_;
  std::vector<UnderWay> transfers_;  ///< Transfers by handle.
};

}  // namespace weft::mesh
