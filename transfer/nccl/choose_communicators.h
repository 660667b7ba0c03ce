#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <variant>
#include <vector>

#include "transfer/nccl/lower.h"

namespace weft::transfer {

/// A plan of a program whose devices all are GPUs that reach each other. Borrows the plan.
struct ProgramTransfer {
  std::uint32_t op = 0;  ///< As in TransferId.
  std::variant<const ReshardPlan*, const CollectivePlan*> plan;
  std::uint64_t repeats = 1;  ///< How often a step executes it.
};

/// The communicators of a program and what each transfer makes of them.
struct CommunicatorChoice {
  /// All that are used, in the order in which all devices create them.
  std::vector<CommunicatorGroup> groups;
  std::map<std::uint32_t, CommunicatorGroup> point_to_point;  ///< By op, of reshardings.
  std::vector<CommunicatorGroup> broadcasts;

  friend bool operator==(const CommunicatorChoice&, const CommunicatorChoice&) = default;
};

/// A communicator costs device memory (hundreds of MB) and a second to create, so a device has at
/// most `max_per_device` of them:
///   1. one per group of a collective, and one over the devices of each resharding, for what goes
///      from one to one. So both directions between two meshes share one. If these are too many,
///      one over all devices serves all reshardings;
///   2. as long as there is room, one per set of a root and its receivers that several devices want
///      the same bytes in, those first that save most bytes.
/// Pure: all processes choose alike. Throws Error(kResourceExhausted) when the collectives alone
/// need more.
CommunicatorChoice choose_communicators(std::span<const ProgramTransfer> transfers,
                                        std::size_t max_per_device = 12);

/// Lowers each transfer with the communicators of `choice`; by op. `options`' communicators are not
/// used.
std::map<std::uint32_t, LoweredTransfer> lower_program(std::span<const ProgramTransfer> transfers,
                                                       const CommunicatorChoice& choice,
                                                       const LoweringOptions& options = {});

}  // namespace weft::transfer
