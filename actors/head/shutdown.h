#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "actors/call/task.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Stop of a cluster on request. Owned by the head; its thread only.
class Shutdown final {
 public:
  /// Time that runs have to end.
  static constexpr Nanoseconds kRunsEndWithin = std::chrono::seconds(25);

  /// `on_stop`: called with the reason when the head's process should end.
  Shutdown(Context& context, const Clock& clock, HostTable& hosts, OwnerTable& owners,
           StateStore& store, EventLog& log, std::function<void(const std::string&)> on_stop)
      : context_(context),
        clock_(clock),
        hosts_(hosts),
        owners_(owners),
        store_(store),
        log_(log),
        on_stop_(std::move(on_stop)) {}
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

  /// Stops the cluster. Runs end as by Ctrl-C, with a checkpoint, within kRunsEndWithin; with `now`
  /// they are not asked. Then owners are told, hosts end with all their processes, and the head
  /// ends.
  task<void> stop(std::string reason, bool now);

 private:
  /// Asks all runs to end as by Ctrl-C. Waits until they have ended, for kRunsEndWithin at most.
  task<void> end_runs();
  /// Waits a short time for owners that are away to reconnect.
  task<void> await_owners();
  /// Tells owners, then agents, that the cluster stops.
  task<void> end_members(std::string reason);

  Context& context_;
  const Clock& clock_;
  HostTable& hosts_;
  OwnerTable& owners_;
  StateStore& store_;
  EventLog& log_;
  const std::function<void(const std::string&)> on_stop_;
  bool begun_ = false;   // True after stop() is called; it may still wait for runs.
  bool ending_ = false;  // True when processes end because they were told to.
};

}  // namespace weft::actors
