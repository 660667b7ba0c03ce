#include "actors/launch/clean_up_watchdog.h"

#include <fmt/format.h>

#include <cstdio>

#include "actors/launch/app_main.h"
#include "actors/launch/exit_request.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"

namespace weft::actors {

CleanUpWatchdog::~CleanUpWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CleanUpWatchdog::begin() {
  if (thread_.joinable()) return;
  cluster_.system().set_exit_reason("its run is complete; releasing its devices");
  thread_ = Thread("clean-up-limit", ThreadPriority::kOrdinary, [this] { watch(); });
}

void CleanUpWatchdog::watch() {
  {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, AppRun::kCleanUpWithin, [this] { return over_; })) return;
  }
  const int status = interruption_.requested() ? kInterrupted : 0;
  say(stderr,
      "weft: the run is complete, but its clean-up did not finish within {:.0f} s and was cut "
      "off, waiting for: {}\n",
      in_seconds(AppRun::kCleanUpWithin), describe_own_calls());
  cluster_.report_end({status == 0 ? RunState::kDone : RunState::kInterrupted, ""});
  end_process(status);
}

std::string CleanUpWatchdog::describe_own_calls() const {
  std::string text;
  for (const WaitingCall& call : cluster_.system().waiting_calls())
    text += fmt::format("{}'{}' to {}", text.empty() ? "" : ", ", call.method, call.target.label);
  return text.empty() ? "its threads for transfers and devices" : text;
}

}  // namespace weft::actors
