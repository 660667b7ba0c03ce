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
      last_progress_(started_) {}

TransferReport ActiveWork::report() const {
  TransferReport report{
      id_,         Outcome<void>(), started_, first_bytes_.value_or(started_), context_.clock.now(),
      bytes_sent_, bytes_received_};
  if (error_) report.outcome = *error_;
  return report;
}

void ActiveWork::mark_first_bytes() {
  if (!first_bytes_) first_bytes_ = context_.clock.now();
}

void ActiveWork::fail(const Error& error, NotifyPeers notify) {
  if (error_ || finished_) return;
  error_ = error;
  last_progress_ = context_.clock.now();
  const std::set<DeviceId> waiting = stop(notify == NotifyPeers::kNoPeer);
  context_.port.failed(*this, notify == NotifyPeers::kNoPeer ? std::set<DeviceId>() : waiting);
  finish_if_complete();
}

std::set<DeviceId> ActiveWork::check_deadline(TimePoint now, Nanoseconds grace) {
  if (finished_) return {};
  if (error_) return now >= last_progress_ + grace ? abandon_messages() : std::set<DeviceId>();
  const auto give_up = [&](const char* what, Nanoseconds limit) {
    const double seconds = std::chrono::duration<double>(limit).count();
    fail(Error(ErrorCode::kDeadlineExceeded,
               fmt::format("{} {} {:.3g} s: {}", describe(), what, seconds, describe_missing())),
         NotifyPeers::kWaiting);
  };
  if (limits_.deadline != Nanoseconds(0) && now >= started_ + limits_.deadline)
    give_up("did not finish within", limits_.deadline);
  else if (limits_.no_progress != Nanoseconds(0) && now >= last_progress_ + limits_.no_progress)
    give_up("made no progress for", limits_.no_progress);
  return {};
}

TimePoint ActiveWork::next_check(Nanoseconds grace) const {
  if (error_) return last_progress_ + grace;
  const TimePoint end =
      limits_.deadline == Nanoseconds(0) ? TimePoint::max() : started_ + limits_.deadline;
  return limits_.no_progress == Nanoseconds(0)
             ? end
             : std::min(end, last_progress_ + limits_.no_progress);
}

void ActiveWork::message_ended() {
  --in_flight_;
  record_progress();
}

void ActiveWork::finish_if_complete() {
  if (finished_ || in_flight_ != 0 || (!error_ && !complete())) return;
  finished_ = true;
  context_.port.finished(*this);
}

}  // namespace weft::transfer
