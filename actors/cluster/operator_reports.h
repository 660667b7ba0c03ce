#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/cluster/run_events.h"
#include "actors/head/cluster_messages.h"
#include "core/log/log.h"

namespace weft::actors {

/// Reports of an owner to the operator of its run: lines of the log, and events of the run. Any
/// thread.
class OperatorReports final {
 public:
  /// `on_event` is called for each event, on the thread of the report. May be empty.
  OperatorReports(Log log, std::function<void(const RunEvent&)> on_event);

  /// Reports an event, with a warning in the log.
  void warn(const RunEvent& event) const;
  /// Reports an event that is in the log already.
  void add(const RunEvent& event) const;
  /// Reports what caps the memory of the first device processes; later calls do nothing.
  void add_memory_caps(const std::vector<DeviceProcess>& processes, std::uint64_t cap_bytes);

 private:
  const Log log_;
  const std::function<void(const RunEvent&)> on_event_;
  std::atomic<bool> caps_reported_ = false;
};

}  // namespace weft::actors
