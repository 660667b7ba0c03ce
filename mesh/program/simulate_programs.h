#pragma once

#include <vector>

#include "mesh/program/program.h"
#include "mesh/program/traffic.h"

namespace weft::mesh {

/// Seconds of each instruction, by program and instruction. Entries of Start and Wait are ignored.
using InstructionSeconds = std::vector<std::vector<double>>;

/// Times at which each device reaches certain points, in seconds, by program.
struct ProgramSimulation {
  std::vector<double> end;  ///< End of all instructions.
  /// End of the last op; instructions after it belong to the end of the step.
  std::vector<double> last_run;
  double step = 0;  ///< Time at which the last device ends.
};

/// Simulates programs that were compiled together, as devices run them: each device by itself,
/// transfers beside computation, and only Wait blocks. Transfers share links fairly. Within a send
/// queue, transfers are ordered by start, and a transfer that cannot move takes no place. Pure;
/// takes a fraction of a second for a step of thousands of transfers.
///
/// mesh/schedule simulates a schedule with a mesh as one actor, which is fast enough for a search.
/// This function simulates the compiled programs with each device of a mesh apart: replicas that do
/// not depend on each other within a step drift apart. Throws Error(kInvalidArgument) if the
/// programs cannot finish, or if `seconds` or `traffic` do not match the programs.
ProgramSimulation simulate_programs(const std::vector<Program>& programs,
                                    const InstructionSeconds& seconds, const Traffic& traffic);

}  // namespace weft::mesh
