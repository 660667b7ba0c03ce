#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mesh/executor/device_group.h"

namespace weft::mesh {

/// Traces of the devices' steps, with the offsets of the devices' clocks. One thread at a time.
class DeviceTraces final {
 public:
  /// Measures the devices' clocks, for traces that begin later.
  void measure_clocks(const DeviceGroup& devices);
  /// Takes the events of a step. Ignores reports without events.
  void add(std::vector<StepReport>& reports, const TrainingPlan& plan);
  /// Returns the traces since the last call, by DeviceId.
  std::vector<DeviceTrace> take() { return std::exchange(traces_, {}); }
  void clear() { traces_.clear(); }

 private:
  std::vector<std::int64_t> clock_offsets_;  ///< Nanoseconds, by DeviceId.
  std::vector<DeviceTrace> traces_;
};

}  // namespace weft::mesh
