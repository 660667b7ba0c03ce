#pragma once

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// The same schedule with a REDUCE_GRAD of every stage right behind its last weight gradient, or
/// the last T and IB that it names, where it has none: with several stages per actor the first ones
/// to be done are summed behind the backwards of the others. Sums are the same, bit for bit.
Schedule with_early_reductions(Schedule schedule);

}  // namespace weft::mesh
