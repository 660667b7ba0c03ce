#include "core/device/waitable_clock.h"

#include <sys/prctl.h>

#include <cerrno>
#include <ctime>

namespace weft {

void SystemWaitableClock::block_until(TimePoint time) {
  // Timers of a thread may fire 50 microseconds late by default.
  thread_local const bool prompt = prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  (void)prompt;
  const auto since_start = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_start);
  timespec until{};
  until.tv_sec = seconds.count();
  until.tv_nsec = (since_start - seconds).count();
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace weft
