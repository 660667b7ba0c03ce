#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/call/future.h"
#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "mesh/executor/stall_detector.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Watch over one execution while the driver waits for its end. Polls the devices' I/O threads, has
/// the reports judged, and reports a stall or throws. One thread at a time.
class StallMonitor final {
 public:
  using Answers = actors::Future<std::vector<Outcome<DeviceProgress>>>;
  struct Devices {
    /// Names such as "back[0,0] on worker1 device 0 (pid 4121)"; last the driver, if it takes part.
    std::vector<std::string> names;
    const std::vector<Program>* programs;  ///< Null: no program runs, or a background one.
    std::function<Answers()> ask;
    /// Reads the driver's progress. Empty if the driver takes no part.
    std::function<std::optional<DeviceProgress>()> driver = {};
    /// Called with a device to name and a message when nothing moves.
    std::function<void(std::size_t device, const std::string& line)> on_stall;
  };
  /// `what`: name of the execution, such as "step 3 of 'train'".
  StallMonitor(const ProgressLimits& limits, std::uint64_t run, std::string what, Devices devices,
               const Clock& clock);

  Nanoseconds interval() const { return detector_.interval(); }
  /// Call about every interval(). Throws Error(kDeadlineExceeded) if the execution is deadlocked or
  /// an op takes too long. The message says which device waits for which, or the device, its op and
  /// the time.
  void poll_devices();

 private:
  std::string inside(std::size_t device) const;
  std::string stalled_text(const StallDetector::Verdict& verdict) const;
  std::string stuck_chunk() const;
  std::string stall() const;

  const std::uint64_t run_;
  StallDetector detector_;
  const std::string what_;
  const Devices devices_;
  const Clock& clock_;
  std::optional<Answers> answers_;
  TimePoint asked_;
  StallDetector::Reports reports_;
};

}  // namespace weft::mesh
