#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

/// A non-blocking NCCL communicator: each call that takes time goes on in a thread of NCCL's, and
/// poll() asks how far it is.
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
  /// Where NCCL writes a communicator when it has been made.
  using Slot = std::shared_ptr<ncclComm_t>;

  /// What will be left of `parent`.
  NcclCommunicator(const NcclCommunicator& parent, Slot slot, std::span<const int> excluded_ranks);
  State state_of(ncclComm_t communicator) const;
  ncclResult_t issue(const DeviceCall& call, void* stream) const;

  const int gpu_;
  const std::string name_;
  /// Null after abort(), and until a shrunk one has been made.
  ncclComm_t communicator_ = nullptr;
  ncclComm_t parent_ = nullptr;  ///< While a shrunk one is being made,
  Slot made_;                    ///< here.
  /// A shrunk one's made_: NCCL may write there for as long as this one lives.
  Slot shrunk_;
  bool created_ = false;
  bool finalizing_ = false;
  bool finalized_ = false;
};

}  // namespace weft::transfer
