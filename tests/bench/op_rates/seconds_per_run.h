#pragma once

#include <cstdint>
#include <functional>

#include "core/base/clock.h"

namespace weft::test {

/// Returns the seconds of one run of some device work. `run_and_wait(n)` queues n runs and waits
/// for their end.
///
/// Times a count and three times that count, in turns, for about `budget` seconds or until ten
/// times each. Returns the difference of their shortest times divided by the difference of the
/// counts. What n runs do once, such as the wait for the device, cancels out. Runs the work at
/// least five times.
double seconds_per_run(const Clock& clock, const std::function<void(std::int64_t)>& run_and_wait,
                       double budget);

}  // namespace weft::test
