#pragma once

#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace weft::mesh {

/// Time spans in any order; they may overlap.
using TimeSpans = std::vector<std::pair<TimePoint, TimePoint>>;

/// Returns the time covered by at least one span: [0,4) and [2,6) cover 6.
Nanoseconds covered_time(TimeSpans spans);

/// Returns the time covered by both `a` and `b`: [0,4) and [2,6) share 2.
Nanoseconds common_time(const TimeSpans& a, const TimeSpans& b);

}  // namespace weft::mesh
