#pragma once

#include "mesh/program/program.h"

namespace weft::mesh {

/// Checks that no instruction touches memory that a transfer in flight fills, or writes memory that
/// one still reads. Throws Error(kInternal) with the device, the instruction and the transfer.
void check_memory(const Program& program);

}  // namespace weft::mesh
