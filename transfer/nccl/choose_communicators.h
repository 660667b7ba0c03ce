#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <variant>
#include <vector>

#include "transfer/nccl/lower.h"

namespace weft::transfer {

/// Plan of a program's transfer whose devices all are GPUs that reach each other. Borrows the plan.
struct ProgramTransfer {
  std::uint32_t op = 0;  ///< Index in the program; see TransferId.
  std::variant<const ReshardPlan*, const CollectivePlan*> plan;
  std::uint64_t repeats = 1;  ///< Number of executions per step.
};

/// Communicators of a program, and the transfers' use of them.
struct CommunicatorChoice {
  /// Communicators in use, in the order in which all devices create them.
  std::vector<CommunicatorGroup> groups;
  /// Communicators of reshardings for sends and receives, by op.
  std::map<std::uint32_t, CommunicatorGroup> point_to_point;
  std::vector<CommunicatorGroup> broadcasts;

  friend bool operator==(const CommunicatorChoice&, const CommunicatorChoice&) = default;
};

/// Chooses the communicators of a program. A communicator costs device memory (hundreds of MB) and
/// takes a second to create, so a device is a member of at most `max_per_device` of them:
///   1. One per group of a collective, and one over the devices of each resharding, for sends and
///      receives. So both directions between two meshes share one. If these are too many, one
///      over all devices serves all reshardings.
///   2. While there is room, one per set of a root and its receivers that share the same bytes.
///      Sets that save most bytes come first.
/// Pure: all processes choose alike. Throws Error(kResourceExhausted) if the collectives, with one
/// communicator for all reshardings, exceed the limit.
CommunicatorChoice choose_communicators(std::span<const ProgramTransfer> transfers,
                                        std::size_t max_per_device = 12);

/// Lowers each transfer with the communicators of `choice`. Returns the results by op. Ignores the
/// communicators in `options`.
std::map<std::uint32_t, LoweredTransfer> lower_program(std::span<const ProgramTransfer> transfers,
                                                       const CommunicatorChoice& choice,
                                                       const LoweringOptions& options = {});

}  // namespace weft::transfer
