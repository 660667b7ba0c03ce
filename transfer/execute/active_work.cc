#include "transfer/execute/active_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace weft::transfer {

ActiveWork::ActiveWork(const TransferContext& context, const TransferId& id, std::uint64_t order,
                       const TransferLimits& limits)
    : context_(context),
      id_(id),
      order_(order),
      limits_(limits),
      started_(context.clock.now()),
      moved_(started_) {}

TransferReport ActiveWork::report() const {
  TransferReport report{
      id_,         Outcome<void>(), started_, moving_.value_or(started_), context_.clock.now(),
      bytes_sent_, bytes_received_};
  if (error_) report.outcome = *error_;
  return report;
}

void ActiveWork::mark_first_bytes() {
  if (!moving_) moving_ = context_.clock.now();
}

void ActiveWork::fail(const Error& error, Tell tell) {
  if (error_ || over_) return;
  error_ = error;
  moved_ = context_.clock.now();
  const std::set<DeviceId> waiting = stop(tell == Tell::kNobody);
  context_.port.failed(*this, tell == Tell::kNobody ? std::set<DeviceId>() : waiting);
  finish_if_complete();
}

std::set<DeviceId> ActiveWork::check_deadline(TimePoint now, Nanoseconds grace) {
  if (over_) return {};
  if (error_) return now >= moved_ + grace ? abandon_messages() : std::set<DeviceId>();
  const auto give_up = [&](const char* what, Nanoseconds limit) {
    const double seconds = std::chrono::duration<double>(limit).count();
    fail(Error(ErrorCode::kDeadlineExceeded,
               fmt::format("{} {} {:.3g} s: {}", describe(), what, seconds, describe_missing())),
         Tell::kWaiting);
  };
  if (limits_.deadline != Nanoseconds(0) && now >= started_ + limits_.deadline)
    give_up("did not finish within", limits_.deadline);
  else if (limits_.no_progress != Nanoseconds(0) && now >= moved_ + limits_.no_progress)
    give_up("has not moved for", limits_.no_progress);
  return {};
}

TimePoint ActiveWork::next_check(Nanoseconds grace) const {
  if (error_) return moved_ + grace;
  const TimePoint end =
      limits_.deadline == Nanoseconds(0) ? TimePoint::max() : started_ + limits_.deadline;
  return limits_.no_progress == Nanoseconds(0) ? end : std::min(end, moved_ + limits_.no_progress);
}

void ActiveWork::message_ended() {
  --in_flight_;
  moved();
}

void ActiveWork::finish_if_complete() {
  if (over_ || in_flight_ != 0 || (!error_ && !complete())) return;
  over_ = true;
  context_.port.finished(*this);
}

}  // namespace weft::transfer
