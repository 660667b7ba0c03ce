#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "core/base/clock.h"

namespace weft {

/// Times of calls that are made one after the other.
struct Latency {
  double median_us = 0;
  double p99_us = 0;
};

/// Times `calls` calls, after a tenth as many that do not count.
template <typename Call>
Latency time_calls(int calls, Call call) {
  const SteadyClock clock;
  std::vector<double> times;
  times.reserve(calls);
  for (int i = 0; i < calls / 10; ++i) call();
  for (int i = 0; i < calls; ++i) {
    const TimePoint begin = clock.now();
    call();
    times.push_back((clock.now() - begin).count() / 1e3);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

/// Makes `calls` calls, of which at most `window` are outstanding. Returns calls per second.
/// `call` returns a future.
template <typename Call>
double pipelined_per_second(int calls, int window, Call call) {
  const SteadyClock clock;
  std::deque<decltype(call())> under_way;
  const TimePoint begin = clock.now();
  for (int i = 0; i < calls; ++i) {
    if (std::ssize(under_way) == window) {
      (void)under_way.front().get();
      under_way.pop_front();
    }
    under_way.push_back(call());
  }
  for (auto& pending : under_way) (void)pending.get();
  return calls / in_seconds(clock.now() - begin);
}

}  // namespace weft
