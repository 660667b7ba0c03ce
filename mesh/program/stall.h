#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "mesh/program/program.h"
#include "transfer/nccl/operation_order.h"

namespace weft::mesh {

/// Says why programs that were made for each other do not go on: a line per device that has not
/// finished, with the action it is in, the one that comes next, what it waits for and who has not
/// begun that; then the cycle of waits, or the device at whose end they all hang. `next` is the
/// instruction each device stands at, nothing where it does not answer; `collectives` the transfer
/// that its device collectives stand at, where there is one: the host goes on past that, so it
/// tells more than the instruction. May be empty.
///
///   front[0,0] is in stage 0, forward of microbatch 1 (next: backward of microbatch 0): waits
///     for 't1 back->front' of microbatch 0, which back[0,0] has not begun
///   back[0,0] is in stage 1, forward of microbatch 1 (next: backward of microbatch 0): waits
///     for 't0 front->back' of microbatch 1, which front[0,0] has not begun
///   the waits form a cycle: front[0,0] -> back[0,0] -> front[0,0]
std::string explain_stall(
    const std::vector<Program>& programs, const std::vector<std::optional<std::size_t>>& next,
    const std::vector<std::optional<transfer::OperationKey>>& collectives = {});

/// What one device stands at, as its own program says.
struct DeviceStanding {
  std::string actions;  ///< "in stage 1, forward of microbatch 1 (next: backward of microbatch 0)"
  /// A transfer that it waits for: its key, its name ("'t1 back->front' of microbatch 0") and with
  /// whom this device exchanges something of it.
  std::optional<transfer::OperationKey> waits_for;
  std::string transfer;
  std::vector<transfer::DeviceId> with;
  std::vector<transfer::OperationKey> ahead;  ///< Transfers that it has not begun, each once.
};

/// `next` is the instruction that it stands at, `collective` as for explain_stall().
DeviceStanding find_standing(const Program& program, std::size_t next,
                             const std::optional<transfer::OperationKey>& collective);

}  // namespace weft::mesh
