#include "actors/launch/child_signals.h"

#include <fmt/format.h>

#include <utility>

#include "actors/supervision/exit_report.h"

namespace weft::actors {

ChildSignals::ChildSignals(SignalCallbacks events)
    : events_(std::move(events)),
      watch_([this](const ReceivedSignal& signal) { received(signal); }) {}

ChildSignals::~ChildSignals() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  // Later signals find `ending_` set and start no thread.
  if (waiting_.joinable()) waiting_.join();
}

void ChildSignals::note(const std::string& text) const {
  if (events_.on_note) events_.on_note(text);
}

void ChildSignals::received(const ReceivedSignal& signal) {
  if (signal.number == kParentShutsDown && signal.from_parent) {
    {
      const std::lock_guard lock(mutex_);
      parent_ends_ = true;
      changed_.notify_all();
    }
    if (events_.on_wait) events_.on_wait();
    return;
  }
  if (!signal.asks_to_end()) return;
  if (signal.from_parent) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    return events_.on_end("stopped by " + signal.describe());
  }
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || waiting_.joinable()) return;
    waiting_ = Thread("wait-for-parent", ThreadPriority::kControl,
                      [this, signal] { wait_for_parent(signal); });
  }
  if (events_.on_wait) events_.on_wait();
}

void ChildSignals::wait_for_parent(const ReceivedSignal& signal) {
  {
    std::unique_lock lock(mutex_);
    const bool settled =
        changed_.wait_for(lock, kParentTimeout, [this] { return parent_ends_ || ending_; });
    if (settled) {
      lock.unlock();
      return note(fmt::format("{}: waits until its parent ends it", signal.describe()));
    }
  }
  note(fmt::format("{}: its parent does not end within {:.0f} s, so this process does",
                   signal.describe(), in_seconds(kParentTimeout)));
  kill_self(signal.number);
}

}  // namespace weft::actors
