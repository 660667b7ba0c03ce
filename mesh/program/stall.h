#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "mesh/program/program.h"
#include "transfer/nccl/operation_order.h"

namespace weft::mesh {

/// Explains why programs that were compiled together make no progress. Returns a line per
/// unfinished device: the action it is in, the next action, the transfer it waits for, and the
/// devices that have not started that transfer. Adds the cycle of waits, or the device at the end
/// of the chain of waits.
///
/// `next`: the instruction at which each device stands; absent if it does not answer.
/// `collectives`: the transfer at which each device's collectives stand; absent or empty if there
/// is none. The host runs ahead of its device collectives, so this tells more than the instruction.
///
/// `next`: the instruction at which each device stands; absent if it does not answer.
/// `collectives`: the transfer at which each device's collectives stand; absent or empty if there
/// is none. The host runs ahead of its device collectives, so this tells more than the instruction.
///
///   front[0,0] is in stage 0, forward of microbatch 1 (next: backward of microbatch 0): waits
///     for 't1 back->front' of microbatch 0, which back[0,0] has not started
///   back[0,0] is in stage 1, forward of microbatch 1 (next: backward of microbatch 0): waits
///     for 't0 front->back' of microbatch 1, which front[0,0] has not started
///   deadlock: these devices wait for each other: front[0,0] -> back[0,0] -> front[0,0]
std::string explain_stall(
    const std::vector<Program>& programs, const std::vector<std::optional<std::size_t>>& next,
    const std::vector<std::optional<transfer::OperationKey>>& collectives = {});

/// Position of one device, as derived from its own program.
struct DevicePosition {
  std::string actions;  ///< "in stage 1, forward of microbatch 1 (next: backward of microbatch 0)"
  /// Transfer that the device waits for: its key, its name ("'t1 back->front' of microbatch 0") and
  /// the devices that take part in it.
  std::optional<transfer::OperationKey> waits_for;
  std::string transfer;
  std::vector<transfer::DeviceId> with;
  /// Transfers that the device has not started, each once.
  std::vector<transfer::OperationKey> ahead;
};

/// Returns the position of a device at instruction `next`. `collective`: as in explain_stall().
DevicePosition find_device_position(const Program& program, std::size_t next,
                                    const std::optional<transfer::OperationKey>& collective);

}  // namespace weft::mesh
