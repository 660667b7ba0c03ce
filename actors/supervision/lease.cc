#include "actors/supervision/lease.h"

#include <algorithm>

namespace weft::actors {

void Lease::renew(TimePoint now) {
  seen_ = now;
  silence_ = Nanoseconds::zero();
}

Nanoseconds Lease::look(TimePoint now) {
  // A look that comes half an interval late is nothing unusual on a busy machine.
  if (seen_) silence_ += std::min<Nanoseconds>(now - *seen_, every_ + every_ / 2);
  seen_ = now;
  return silence_;
}

}  // namespace weft::actors
