#pragma once

#include <functional>
#include <string>

#include "actors/head/cluster_messages.h"
#include "actors/head/run_messages.h"
#include "actors/head/state_store.h"

namespace weft::actors {

/// Events of a cluster: recorded in the head's state, and logged. Never throws because of a disk.
/// One thread at a time.
class EventLog final {
 public:
  /// `on_event`: called with each event after it is recorded.
  EventLog(StateStore& store, std::function<void(const ClusterEvent&)> on_event)
      : store_(store), on_event_(std::move(on_event)) {}

  /// Records an event and logs it. Writes the rows that changed before. Call it after the processes
  /// that wait for the change are notified. `logged`: text for the log, if it says more than the
  /// record.
  void record(std::string text, const std::string& logged = {});
  /// Records an event that the log of the process has already.
  void record_unlogged(std::string text);
  /// Returns at most 1,000 events.
  ClusterEvents read(const EventsRequest& request) const;

 private:
  StateStore& store_;
  const std::function<void(const ClusterEvent&)> on_event_;
};

}  // namespace weft::actors
