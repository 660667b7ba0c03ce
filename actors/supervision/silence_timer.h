#pragma once

#include <optional>

#include "core/base/clock.h"

namespace weft::actors {

/// Timer of how long a peer has been silent, seen by an observer that looks about every `every`.
/// Time in which the observer itself was stopped or without a CPU is not counted: it may not have
/// read what arrived meanwhile. Pure: times are arguments, and do not go back. One thread at a
/// time.
class SilenceTimer final {
 public:
  explicit SilenceTimer(Nanoseconds every) : every_(every) {}

  /// Records that something has arrived.
  void renew(TimePoint now);
  /// Returns the silence since the last renew(), or since the first call of either function.
  Nanoseconds update(TimePoint now);

 private:
  const Nanoseconds every_;
  std::optional<TimePoint> seen_;  ///< Time up to which the silence is counted.
  Nanoseconds silence_{0};
};

}  // namespace weft::actors
