#include "actors/launch/run_interruption.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <utility>

#include "actors/launch/exit_request.h"
#include "core/base/clock.h"
#include "core/base/platform.h"
#include "core/base/terminal.h"

namespace weft::actors {

RunInterruption::RunInterruption(std::string run_name, const RunEvents& events,
                                 SupervisorEventQueue& queue, EndRequestFilter::Parent parent)
    : run_name_(std::move(run_name)),
      events_(events),
      queue_(queue),
      requests_(parent),
      signals_([this](const ReceivedSignal& signal) { received(signal); }) {}

void RunInterruption::set_launcher(ProcessLauncher* launcher) {
  const std::lock_guard lock(mutex_);
  launcher_ = launcher;
  changed_.notify_all();
}

void RunInterruption::received(const ReceivedSignal& signal) {
  if (signal.number == kCheckpointSignal)
    queue_.add({SupervisorEvent::Kind::kCheckpointWanted, "", {}});
  if (signal.asks_to_end() &&
      requests_.add(signal, SteadyClock().now()) != EndRequestFilter::Kind::kEcho)
    interrupted(signal);
}

void RunInterruption::interrupted(const ReceivedSignal& signal) {
  const int count = ++count_;
  events_.add({"interruption", fmt::format("{}{}", signal.describe(),
                                           count == 1 ? "" : ": stopping all processes now")});
  if (count == 1)
    say(stderr, "weft: {}: {}; press Ctrl-C again to stop now\n", signal.describe(), phase_.load());
  if (count == 2) say(stderr, "weft: {}: stopping all processes now\n", signal.describe());
  std::unique_lock lock(mutex_);
  // The processes may have been signalled, too, but the last checkpoint needs them.
  if (count == 1 && launcher_ != nullptr) launcher_->signal_all(kParentShutsDown);
  queue_.add({SupervisorEvent::Kind::kSignal, "", {}});
  if (count != 2 || launcher_ == nullptr) return;
  launcher_->signal_all(SIGKILL);
  if (changed_.wait_for(lock, kEndWithin, [this] { return launcher_ == nullptr; })) return;
  say(stderr, "weft: run '{}' was interrupted\n", run_name_);
  end_process(kInterrupted);
}

}  // namespace weft::actors
