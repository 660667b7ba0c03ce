#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "mesh/program/compile.h"
#include "transfer/nccl/communicator_group.h"
#include "transfer/nccl/device_path.h"

namespace weft::mesh {

/// Which transfers of a run's programs their devices' own library carries. A value.
struct CollectiveUse {
  std::string library;  ///< "NCCL 2.28.9"; empty if it carries nothing.
  /// The communicators that they need, in the order in which all devices create them.
  std::vector<transfer::CommunicatorGroup> groups;
  /// Per element of `steps` and op: why a transfer goes through host memory.
  std::vector<std::map<std::uint32_t, std::string>> staged;
};

struct CollectiveUseOptions {
  std::size_t max_communicators = 12;  ///< Per device: each takes hundreds of MB.
  bool deterministic = true;           ///< See LoweringOptions.
};

/// Gives every transfer between devices that choose_path() lets talk through their library over to
/// that: its operations, and for each program the one order of all devices. All others
/// stay as they are; norms do, which lie in host memory.
///
/// `steps` are what a run executes one at a time ("train", "validate"); they share communicators.
/// `places` by DeviceId; devices beyond their number are no GPUs. Where devices would need more
/// communicators than they may have, everything stays.
CollectiveUse use_device_collectives(std::span<Compiled* const> steps,
                                     std::span<const transfer::DevicePlace> places,
                                     const CollectiveUseOptions& options = {});

}  // namespace weft::mesh
