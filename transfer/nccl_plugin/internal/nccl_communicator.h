#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

/// Non-blocking NCCL communicator. Long calls continue in a thread of NCCL's, and poll() reports
/// their state.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  /// Begins to create rank `rank` of `size`.
  NcclCommunicator(int gpu, const ncclUniqueId& id, int size, int rank, int max_blocks,
                   std::string name);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  State poll() override;
  void enqueue(std::span<const DeviceCall> calls, weft::Stream& stream) override;
  void finalize() override;
  void stop() noexcept override;
  void abort() noexcept override;
  std::unique_ptr<DeviceCommunicator> shrink(std::span<const int> excluded_ranks) override;

 private:
  /// Location to which NCCL writes a new communicator.
  using Slot = std::shared_ptr<ncclComm_t>;

  /// Begins to shrink `parent`.
  NcclCommunicator(const NcclCommunicator& parent, Slot slot, std::span<const int> excluded_ranks);
  State state_of(ncclComm_t communicator) const;
  ncclResult_t issue(const DeviceCall& call, void* stream) const;

  const int gpu_;
  const std::string name_;
  /// Null after abort(), and until a shrunk communicator has been created.
  ncclComm_t communicator_ = nullptr;
  ncclComm_t parent_ = nullptr;  ///< Parent, while a shrunk communicator is being created.
  Slot location_;                ///< Location of the shrunk communicator.
  /// `location_` of a shrunk child. NCCL may write to it as long as this communicator lives.
  Slot child_location_;
  bool created_ = false;
  bool finalizing_ = false;
  bool finalized_ = false;
};

}  // namespace weft::transfer
