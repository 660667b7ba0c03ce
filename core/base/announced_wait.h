#pragma once

#include <functional>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft {

/// Announcement of a long wait: prints on standard error, after one second, what is waited for and
/// the time limit: "waiting for worker1 (at most 20 s)". Lives as long as the wait. Silent in a
/// simulated world. Any thread.
class AnnouncedWait final {
 public:
  using Say = std::function<void(const std::string&)>;

  /// Starts the wait. `after`: time before the announcement. `say`: called once, on a thread of
  /// this object; default: a line on standard error.
  AnnouncedWait(std::string what, Nanoseconds at_most, Say say = {},
                Nanoseconds after = std::chrono::seconds(1));
  AnnouncedWait(const AnnouncedWait&) = delete;
  AnnouncedWait& operator=(const AnnouncedWait&) = delete;
  ~AnnouncedWait();

  /// Changes what is waited for.
  void update(std::string what);

 private:
  void announce();

  const Nanoseconds at_most_;
  const Nanoseconds after_;
  const Say say_;
  Mutex mutex_;
  Condition changed_;
  std::string what_;   // guarded by mutex_
  bool over_ = false;  // guarded by mutex_
  Thread thread_;
};

}  // namespace weft
