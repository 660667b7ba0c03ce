#pragma once

#include "mesh/program/program.h"

namespace weft::mesh {

/// Checks that nothing touches memory that a transfer under way fills, or writes where one still
/// reads. Throws Error(kInternal) that names the device, the instruction and the transfer.
void check_memory(const Program& program);

}  // namespace weft::mesh
