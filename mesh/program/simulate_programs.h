#pragma once

#include <vector>

#include "mesh/program/program.h"
#include "mesh/program/traffic.h"

namespace weft::mesh {

/// Seconds of each instruction, by program and instruction; of a Start and a Wait they do not
/// count.
using InstructionSeconds = std::vector<std::vector<double>>;

/// How far each device got when, by program.
struct ProgramSimulation {
  std::vector<double> end;  ///< Of all its instructions.
  /// Of its last op: what comes then belongs to the end of the step.
  std::vector<double> last_run;
  double step = 0;  ///< Until the last one is over.
};

/// Plays programs that were compiled together, as their devices run them: every device for itself,
/// transfers beside the computation, only a Wait stands still. What moves shares links fairly; in
/// each queue who started first goes first, and who cannot move yet takes no place. Pure; a
/// fraction of a second for a step of thousands of transfers.
///
/// mesh/schedule plays a schedule, a mesh as one actor, which a search can afford; this plays what
/// comes of it, and knows devices of a mesh apart: replicas that nothing ties together within a
/// step drift apart. Throws Error(kInvalidArgument) if the programs cannot finish, or `seconds` or
/// `traffic` belong to others.
ProgramSimulation simulate_programs(const std::vector<Program>& programs,
                                    const InstructionSeconds& seconds, const Traffic& traffic);

}  // namespace weft::mesh
