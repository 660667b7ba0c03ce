#include "mesh/runtime/intervals.h"

#include <algorithm>

namespace weft::mesh {

Nanoseconds covered_time(TimeSpans spans) {
  std::sort(spans.begin(), spans.end());
  Nanoseconds sum{0};
  TimePoint end{TimePoint::min()};
  for (const auto& [first, last] : spans) {
    const TimePoint from = std::max(first, end);
    if (last > from) sum += last - from;
    end = std::max(end, last);
  }
  return sum;
}

Nanoseconds common_time(const TimeSpans& a, const TimeSpans& b) {
  // |A and B| = |A| + |B| - |A or B|
  TimeSpans both = a;
  both.insert(both.end(), b.begin(), b.end());
  return covered_time(a) + covered_time(b) - covered_time(std::move(both));
}

}  // namespace weft::mesh
