#pragma once

#include <functional>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors::internal {

/// A wait that a person may wonder about: after one second it says on standard error what is waited
/// for, and for how long at most: "waiting for worker1 (at most 20 s)". Lives as long as the wait.
/// Says nothing in a simulated world. Methods: any thread.
class AnnouncedWait final {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `after`: how long the wait goes on without a word. `say`: called once, on a thread of this
  /// object; default: a line on standard error.
  AnnouncedWait(std::string what, Nanoseconds at_most, Say say = {},
                Nanoseconds after = std::chrono::seconds(1));
  AnnouncedWait(const AnnouncedWait&) = delete;
  AnnouncedWait& operator=(const AnnouncedWait&) = delete;
  ~AnnouncedWait();

  /// What is waited for from now on.
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

}  // namespace weft::actors::internal
