#pragma once

#include <atomic>
#include <utility>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "core/base/outcome.h"

namespace weft::mesh {

/// End of a transfer, which the transfer thread reports to a handler.
struct TransferEnd {
  explicit TransferEnd(actors::Wakeup wake) : wakeup(std::move(wake)) {}
  const actors::Wakeup wakeup;
  Outcome<void> outcome;  ///< Written before `done`.
  std::atomic<bool> done{false};

  void set(const Outcome<void>& result) {
    outcome = result;
    done = true;
    wakeup.notify();
  }
  actors::task<void> wait() {
    while (!done) co_await wakeup.wait();
  }
  /// Returns false if the transfer has not ended within `time`.
  actors::task<bool> wait_within(Nanoseconds time) {
    bool in_time = true;
    while (!done && in_time) {
      auto waiting = wakeup.wait_for(time);
      in_time = co_await waiting;
    }
    co_return done;
  }
};

}  // namespace weft::mesh
