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

/// Transfers of a run's programs that the GPU library (NCCL) carries. A value.
struct CollectiveAssignment {
  /// Name of the library, such as "NCCL 2.28.9"; empty if it carries nothing.
  std::string library;
  /// Communicators that the transfers need, in the order in which all devices create them.
  std::vector<transfer::CommunicatorGroup> groups;
  /// Reason why a transfer goes through host memory, per element of `steps`, by op.
  std::vector<std::map<std::uint32_t, std::string>> staged;
};

struct CollectiveUseOptions {
  /// Most communicators per device; each takes hundreds of MB.
  std::size_t max_communicators = 12;
  bool deterministic = true;  ///< See LoweringOptions.
};

/// Converts every transfer whose devices can use their library, by choose_path(), to library
/// operations, and sets the collective order of each program. Other transfers stay with the engine;
/// norms do, as they are in host memory.
///
/// `steps`: programs that a run executes one at a time ("train", "validate"); they share
/// communicators. `places`: by DeviceId; devices past its end have no GPU. If devices would need
/// more communicators than allowed, all transfers stay with the engine.
CollectiveAssignment use_device_collectives(std::span<Compiled* const> steps,
                                            std::span<const transfer::DeviceCapabilities> places,
                                            const CollectiveUseOptions& options = {});

}  // namespace weft::mesh
