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
#include "mesh/executor/progress_judge.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Looks after one execution of programs while somebody waits for its end: asks the devices' I/O
/// threads how they get on, has that judged, and tells. One thread at a time.
class ProgressWatch final {
 public:
  using Answers = actors::Future<std::vector<Outcome<DeviceProgress>>>;
  struct Devices {
    /// "back[0,0] on worker1 device 0 (pid 4121)"; the driver, if it takes part, last.
    std::vector<std::string> names;
    const std::vector<Program>* programs;  ///< Null: they are in no program, or beside one.
    std::function<Answers()> ask;
    /// Where it takes part.
    std::function<std::optional<DeviceProgress>()> driver = {};
    /// A device that is worth naming.
    std::function<void(std::size_t device, const std::string& line)> on_still;
  };
  /// `what`: "step 3 of 'train'".
  ProgressWatch(const ProgressLimits& limits, std::uint64_t run, std::string what, Devices devices,
                const Clock& clock);

  Nanoseconds interval() const { return judge_.interval(); }
  /// To be called about every interval(). Throws Error(kDeadlineExceeded) where the execution will
  /// not end by itself, or takes too long for an op: who waits for whom, or the device, its op and
  /// since when.
  void look();

 private:
  std::string inside(std::size_t device) const;
  std::string still(const ProgressJudge::Verdict& verdict) const;
  std::string stuck_chunk() const;
  std::string stall() const;

  const std::uint64_t run_;
  ProgressJudge judge_;
  const std::string what_;
  const Devices devices_;
  const Clock& clock_;
  std::optional<Answers> answers_;
  TimePoint asked_;
  ProgressJudge::Reports reports_;
};

}  // namespace weft::mesh
