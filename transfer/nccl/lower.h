#pragma once

#include <cstdint>
#include <vector>

#include "transfer/nccl/device_operations.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// What all devices do for one plan. A value; equal on every process that computes it.
struct LoweredTransfer {
  std::vector<DeviceOperations> parts;  ///< Of the devices that do something, ascending.

  /// empty() for a device that does nothing.
  DeviceOperations part(DeviceId device) const;
  /// Every communicator that some part uses, ascending.
  std::vector<CommunicatorGroup> groups() const;

  friend bool operator==(const LoweredTransfer&, const LoweredTransfer&) = default;
  static constexpr auto fields = weft::fields(&LoweredTransfer::parts);
};

/// A line per device and step.
std::string to_string(const LoweredTransfer& lowered);

struct LoweringOptions {
  /// Carries what goes from one device to one other; must contain all devices of the plan. Empty:
  /// exactly those devices.
  CommunicatorGroup point_to_point = {};
  /// Sets of a root and its receivers that have a communicator: flows among them are broadcasts,
  /// all others sends and receives along the flow's tree.
  std::vector<CommunicatorGroup> broadcasts = {};
  /// Sums of collectives are taken in the plan's rank order, as engines do, so that all back ends
  /// give the same bits. Otherwise they are the library's own: about as many bytes, fewer kernels,
  /// and bits that depend on the library's algorithm.
  bool deterministic = true;
  /// A flow that a device passes on by sends is cut into pieces of this size, one kernel each.
  std::uint64_t relay_chunk_bytes = 8 * 1024 * 1024;
  /// Deterministic sums of at most this many bytes over all ranks are gathered on every rank;
  /// larger ones are exchanged in pieces, each summed on one rank, a slab at a time.
  std::uint64_t gather_bytes = 1024 * 1024;
  std::uint64_t slab_bytes = 64 * 1024 * 1024;
};

/// The devices of a plan's flow: root and receivers.
CommunicatorGroup group_of(const Flow& flow);

/// Flows become broadcasts or sends and receives; a sum goes down its chain in pieces, each added
/// to the receiver's term as engines do, before it is sent on; strided regions are packed into
/// contiguous staging before, and unpacked after. Throws Error(kInvalidArgument) when
/// `options.point_to_point` lacks a device that needs it.
LoweredTransfer lower(const ReshardPlan& plan, const LoweringOptions& options = {});

/// All-reduce, reduce-scatter and all-gather. The plan's flows are not used, only its ranks.
LoweredTransfer lower(const CollectivePlan& plan, const LoweringOptions& options = {});

}  // namespace weft::transfer
