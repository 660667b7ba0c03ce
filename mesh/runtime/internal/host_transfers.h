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

/// The transfers of one execution that the engine carries.
///
///   memory that the host may touch:
///     send:     compute ──event──▶ engine
///     receive:  engine ──report──▶ compute
///   memory of the device:
///     send:     compute ──event──▶ copy out to a staging block ──event──▶ engine
///     receive:  engine ──report──▶ copy in from a staging block ──event──▶ compute
///
/// Owner's thread only.
class HostTransfers final : public TransferExecutor {
 public:
  /// How the engine is to know and to treat them.
  struct Naming {
    std::uint64_t epoch = 0;
    std::uint64_t run = 0;
    bool stands_back = false;  ///< See TransferLimits.
  };
  /// All must outlive it, but for `naming`.
  HostTransfers(transfer::TransferEngine& engine, const Program& program, DeviceQueue& device,
                const Naming& naming);

  bool start(const Start& start, std::span<std::byte> source,
             std::span<std::byte> destination) override;
  bool done(std::uint32_t handle) const override;
  bool wait(std::uint32_t handle) override;
  void cancel(const Error& why) override;

 private:
  /// Checkpoints move everything that a device holds: not all of it through host memory at once.
  static constexpr std::size_t kMostStaged = std::size_t{256} << 20;

  struct UnderWay {
    const Start* start = nullptr;
    /// What the engine is given: the buffers, or blocks in their place.
    std::span<const std::byte> source;
    std::span<std::byte> destination;
    StagingPool::Block source_block, destination_block;
    std::span<std::byte> landing;       ///< In the device's memory, of what comes to a block.
    std::shared_ptr<const Event> free;  ///< The landing may be written.
    std::shared_ptr<const Event> landed;
    bool reported = false;  ///< By the engine.
  };

  const Transfer& transfer_of(std::uint32_t handle) const {
    return program_.transfers[transfers_[handle].start->transfer];
  }
  /// Compute reads or writes the buffer.
  bool is_computed(std::int32_t buffer) const;
  /// Takes blocks for what lies in the device's memory, and begins to copy the source out.
  void stage(std::uint32_t handle);
  void give_to_engine(std::uint32_t handle);
  void engine_reported(std::uint32_t handle, const transfer::TransferReport& report);

  transfer::TransferEngine& engine_;
  const Program& program_;
  DeviceQueue& device_;
  const Naming naming_;
  std::vector<UnderWay> transfers_;  ///< By handle.
};

}  // namespace weft::mesh
