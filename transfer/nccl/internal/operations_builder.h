#pragma once

#include <map>
#include <vector>

#include "transfer/nccl/lower.h"

namespace weft::transfer {

/// Collects the steps of all devices of one transfer. Steps of a device come in the order in which
/// they are added; neighbouring copies become one step, calls of one round as well.
class OperationsBuilder final {
 public:
  /// Makes room for a device with these tensors.
  void add_device(DeviceId device, const std::vector<TensorPart>& tensors);

  /// New staging memory, aligned to 256 bytes.
  BufferPlace stage(DeviceId device, std::uint64_t bytes);
  /// Copies nothing from a place to itself.
  void copy(DeviceId device, StridedCopy copy);
  /// `round` counts the rounds of the transfer; not below one that the device already has.
  void call(DeviceId device, const CommunicatorGroup& group, std::uint32_t round,
            const CollectiveCall& call);
  void sum(DeviceId device, SumStep sum);

  /// Devices without steps are left out.
  LoweredTransfer finish() &&;

 private:
  std::map<DeviceId, DeviceOperations> parts_;
};

}  // namespace weft::transfer
