#pragma once

#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace weft::mesh {

/// Spans of time, in any order; they may overlap.
using TimeSpans = std::vector<std::pair<TimePoint, TimePoint>>;

/// How long at least one of the spans lasted: [0,4) and [2,6) cover 6.
Nanoseconds covered_time(TimeSpans spans);

/// How long a span of `a` and a span of `b` lasted at once: [0,4) and [2,6) share 2.
Nanoseconds common_time(const TimeSpans& a, const TimeSpans& b);

}  // namespace weft::mesh
