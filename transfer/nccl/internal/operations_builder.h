#pragma once

#include <map>
#include <vector>

#include "transfer/nccl/lower.h"

namespace weft::transfer {

/// Collects the steps of all devices of one transfer, per device in the order of the calls. Merges
/// adjacent copies into one step, and calls of one round as well.
class OperationsBuilder final {
 public:
  /// Adds a device with these tensors.
  void add_device(DeviceId device, const std::vector<TensorPart>& tensors);

  /// Allocates staging memory, aligned to 256 bytes.
  BufferPlace stage(DeviceId device, std::uint64_t bytes);
  /// Adds a copy. Skips copies from a place to itself.
  void copy(DeviceId device, StridedCopy copy);
  /// Adds a call in round `round` of the transfer, which is not below a round that the device
  /// already has.
  void call(DeviceId device, const CommunicatorGroup& group, std::uint32_t round,
            const CollectiveCall& call);
  void sum(DeviceId device, SumStep sum);

  /// Returns the transfer, without devices that have no steps.
  LoweredTransfer finish() &&;

 private:
  std::map<DeviceId, DeviceOperations> parts_;
};

}  // namespace weft::transfer
