#include "actors/supervision/silence_timer.h"

#include <algorithm>

namespace weft::actors {

void SilenceTimer::renew(TimePoint now) {
  seen_ = now;
  silence_ = Nanoseconds::zero();
}

Nanoseconds SilenceTimer::update(TimePoint now) {
  // Busy machines often delay a look by half an interval. What exceeds that does not count.
  if (seen_) silence_ += std::min<Nanoseconds>(now - *seen_, every_ + every_ / 2);
  seen_ = now;
  return silence_;
}

}  // namespace weft::actors
