#pragma once

#include <optional>

#include "core/base/clock.h"

namespace weft::actors {

/// For how long nothing has come from somebody, as an observer has watched it: looks about every
/// `every`. Time in which the observer was itself held up, stopped or without a CPU, is not
/// counted: what came meanwhile may not have been read yet. Pure but for the times that are passed
/// in, which do not go back. One thread at a time.
class Lease final {
 public:
  explicit Lease(Nanoseconds every) : every_(every) {}

  /// Something has come.
  void renew(TimePoint now);
  /// The silence since then. Begins with the first call of either.
  Nanoseconds look(TimePoint now);

 private:
  const Nanoseconds every_;
  std::optional<TimePoint> seen_;  ///< Up to here the silence is counted.
  Nanoseconds silence_{0};
};

}  // namespace weft::actors
