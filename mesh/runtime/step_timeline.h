#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "mesh/program/program.h"
#include "mesh/runtime/intervals.h"
#include "mesh/runtime/step.h"
#include "transfer/execute/transfer_report.h"

namespace weft::mesh {

/// Point of a program at which the timeline takes the time.
struct Mark {
  enum class Kind : std::uint8_t {
    kBegin,       ///< An action begins.
    kEndActions,  ///< Actions end here, or have not begun.
    kWaitBegins,  ///< The device waits for a transfer.
    kWaitEnds,    ///< The device continues.
    kEnd,
  };
  Kind kind = Kind::kEnd;
  BeginAction action = {};             ///< Action of kBegin.
  const Transfer* transfer = nullptr;  ///< Transfer for which kWaitEnds ends the wait.
  std::int32_t microbatch = -1;        ///< Microbatch of kWaitEnds.
  /// True for kWaitBegins or kEnd if the device got no work since it continued.
  bool idle = false;
};

/// Builder of an execution's report and trace, from the times at which its device reached marks and
/// its transfers moved. Marks must come in the order of the program. Owner's thread only.
class StepTimeline final {
 public:
  /// `request` must outlive it.
  explicit StepTimeline(const StepRequest& request) : request_(request) {}

  /// Records that the device computes from now on.
  void compute(TimePoint now) { computing_since_ = now; }
  void reach(const Mark& mark, TimePoint now);
  /// Records a transfer that has completed.
  void transferred(const Transfer& transfer, std::int32_t microbatch,
                   const transfer::TransferReport& report);

  /// Returns the device's current action.
  const std::optional<BeginAction>& action() const { return action_; }
  /// Returns the report without losses, norm and the step's own seconds.
  StepReport finish();

 private:
  void begin(const BeginAction& begin, TimePoint now);
  void leave_actions(TimePoint now);
  void end_wait(const Mark& mark, TimePoint now);
  void close_compute_span(TimePoint now);

  const StepRequest& request_;
  std::optional<BeginAction> action_;
  /// Index of action_ in report_.action_times, which holds sums until finish().
  std::size_t action_time_ = 0;
  std::optional<TimePoint> computing_since_;
  std::optional<TimePoint> waiting_since_;
  TimeSpans arrivals_;  ///< Spans in which resharded data was arriving.
  TimeSpans waits_;     ///< Spans in which the device waited for resharded data.
  StepReport report_;
};

}  // namespace weft::mesh
