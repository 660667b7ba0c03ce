#pragma once

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Adds a REDUCE_GRAD for every stage that lacks one, behind all actions of its actor but OPT. So
/// no reduction overlaps computation, but with GatherFrequency::kUse those of earlier microbatches:
/// a baseline of benchmarks. Sums stay bit-identical.
Schedule with_late_reductions(Schedule schedule);

}  // namespace weft::mesh
