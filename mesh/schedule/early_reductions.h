#pragma once

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Adds a REDUCE_GRAD to every stage that lacks one, right after its last weight gradient or the
/// last T or IB with its number. With several stages per actor, the reductions of stages that
/// finish early overlap the backwards of the others. Sums stay bit-identical.
Schedule with_early_reductions(Schedule schedule);

}  // namespace weft::mesh
