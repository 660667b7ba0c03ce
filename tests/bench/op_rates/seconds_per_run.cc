#include "tests/bench/op_rates/seconds_per_run.h"

#include <algorithm>
#include <limits>

namespace weft::test {
namespace {

constexpr int kMaxRepeats = 10;
/// Largest short count. Three times as many runs fit the queue of a device.
constexpr double kMaxCount = 1000;

}  // namespace

double seconds_per_run(const Clock& clock, const std::function<void(std::int64_t)>& run_and_wait,
                       double budget) {
  const auto seconds_of = [&](std::int64_t count) {
    const TimePoint begin = clock.now();
    run_and_wait(count);
    return std::chrono::duration<double>(clock.now() - begin).count();
  };
  const TimePoint begin = clock.now();
  const double once = seconds_of(1);
  const double affordable = budget / (4 * kMaxRepeats * std::max(once, 1e-9));
  const auto few = static_cast<std::int64_t>(std::clamp(affordable, 1.0, kMaxCount));
  const std::int64_t many = 3 * few;
  double shortest_few = std::numeric_limits<double>::infinity(), shortest_many = shortest_few;
  for (int i = 0; i < kMaxRepeats; ++i) {
    shortest_few = std::min(shortest_few, seconds_of(few));
    shortest_many = std::min(shortest_many, seconds_of(many));
    if (std::chrono::duration<double>(clock.now() - begin).count() >= budget) break;
  }
  const double difference = shortest_many - shortest_few;
  // Noise alone can make the longer count the faster one.
  if (difference <= 0) return shortest_many / static_cast<double>(many);
  return difference / static_cast<double>(many - few);
}

}  // namespace weft::test
