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

/// A point of a program that the times of its execution are made of.
struct Mark {
  enum class Kind : std::uint8_t {
    kBegin,         ///< An action begins.
    kLeaveActions,  ///< No action from here on, or none yet.
    kStandStill,    ///< The device waits for a transfer.
    kGoOn,          ///< It need not wait any more.
    kEnd,
  };
  Kind kind = Kind::kEnd;
  Begin action = {};                   ///< Of kBegin.
  const Transfer* transfer = nullptr;  ///< Of kGoOn: what it waited for.
  std::int32_t microbatch = -1;        ///< Of kGoOn.
  /// Of kStandStill and kEnd: the device was given nothing since it went on.
  bool idle = false;
};

/// Makes an execution's report and trace of when its device was where, and when its transfers
/// moved. Is told of marks in the order of the program, with the time at which the device was
/// there. Owner's thread only.
class StepTimeline final {
 public:
  /// `request` must outlive it.
  explicit StepTimeline(const StepRequest& request) : request_(request) {}

  /// The device computes from now on.
  void compute(TimePoint now) { computing_since_ = now; }
  void reach(const Mark& mark, TimePoint now);
  /// A transfer has ended well.
  void transferred(const Transfer& transfer, std::int32_t microbatch,
                   const transfer::TransferReport& report);

  /// The action that the device is in.
  const std::optional<Begin>& action() const { return action_; }
  /// All but losses, norm and the step's own seconds.
  StepReport finish();

 private:
  void begin(const Begin& begin, TimePoint now);
  void leave_actions(TimePoint now);
  void go_on(const Mark& mark, TimePoint now);
  void close_compute_span(TimePoint now);

  const StepRequest& request_;
  std::optional<Begin> action_;
  /// Of action_, in report_.action_times, which holds sums until finish().
  std::size_t action_time_ = 0;
  std::optional<TimePoint> computing_since_;
  std::optional<TimePoint> waiting_since_;
  TimeSpans arrivals_;  ///< When resharded data was on its way to this device.
  TimeSpans waits_;     ///< When the device stood still for resharded data.
  StepReport report_;
};

}  // namespace weft::mesh
