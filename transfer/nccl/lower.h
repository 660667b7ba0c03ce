#pragma once

#include <cstdint>
#include <vector>

#include "transfer/nccl/device_operations.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer {

/// Operations of all devices for one plan. A value; equal on every process that computes it.
struct LoweredTransfer {
  std::vector<DeviceOperations> parts;  ///< Parts of the devices that do something, ascending.

  /// Returns the part of a device; empty() if it does nothing.
  DeviceOperations part(DeviceId device) const;
  /// Returns every communicator that some part uses, ascending.
  std::vector<CommunicatorGroup> groups() const;

  friend bool operator==(const LoweredTransfer&, const LoweredTransfer&) = default;
  static constexpr auto fields = weft::fields(&LoweredTransfer::parts);
};

/// Formats the transfer with one line per device and step.
std::string to_string(const LoweredTransfer& lowered);

struct LoweringOptions {
  /// Communicator for sends and receives. Must contain all devices that need it. Empty: the devices
  /// of the plan.
  CommunicatorGroup point_to_point = {};
  /// Groups of a root and its receivers that have a communicator. Flows among exactly these devices
  /// become broadcasts; all others become sends and receives along the flow's tree.
  std::vector<CommunicatorGroup> broadcasts = {};
  /// True: collectives sum in the plan's rank order, as engines do, so that all back ends give the
  /// same bits. False: the library sums, with about as many bytes and fewer kernels, but bits that
  /// depend on its algorithm.
  bool deterministic = true;
  /// Piece size of flows that a device forwards, one kernel per piece.
  std::uint64_t relay_chunk_bytes = 8 * 1024 * 1024;
  /// Largest deterministic sum, in bytes over all ranks, that is gathered on every rank. Larger
  /// sums are exchanged in pieces, each summed on one rank, one slab at a time.
  std::uint64_t gather_bytes = 1024 * 1024;
  std::uint64_t slab_bytes = 64 * 1024 * 1024;
};

/// Returns the devices of a flow: root and receivers.
CommunicatorGroup group_of(const Flow& flow);

/// Lowers a resharding. Flows become broadcasts, or sends and receives. A sum travels down its
/// chain in pieces; each device adds its term, as engines do, before it forwards the piece. Strided
/// regions are packed into contiguous staging before the rounds, and unpacked afterwards. Throws
/// Error(kInvalidArgument) if `options.point_to_point` lacks a device that needs it.
LoweredTransfer lower(const ReshardPlan& plan, const LoweringOptions& options = {});

/// Lowers an all-reduce, reduce-scatter or all-gather. Uses the plan's ranks and ignores its flows.
/// Throws Error(kInvalidArgument) for a plan without ranks.
LoweredTransfer lower(const CollectivePlan& plan, const LoweringOptions& options = {});

}  // namespace weft::transfer
