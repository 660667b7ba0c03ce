#include "mesh/executor/stall_detector.h"

#include <algorithm>

namespace weft::mesh {

Nanoseconds StallDetector::interval() const {
  const Nanoseconds shortest =
      limits_.longest_op ? std::min(limits_.no_progress, *limits_.longest_op) : limits_.no_progress;
  return std::clamp<Nanoseconds>(shortest / 4, std::chrono::milliseconds(20),
                                 std::chrono::seconds(1));
}

bool StallDetector::has_moved(const Reports& reports, TimePoint now) const {
  if (!moved_) return true;
  // UCX sends a few bytes every 20 s over each connection, even an idle one.
  const auto rounds = static_cast<std::uint64_t>((now - *moved_) / std::chrono::seconds(20)) + 1;
  const std::uint64_t signs_of_life = 4096 + 64 * rounds * reports.size();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i]) continue;
    const std::optional<DeviceProgress>& then = at_last_move_[i];
    if (!then || reports[i]->finished != then->finished ||
        reports[i]->moved_bytes != then->moved_bytes ||
        reports[i]->network_bytes > then->network_bytes + signs_of_life)
      return true;
  }
  return false;
}

StallDetector::Verdict StallDetector::check(const Reports& reports, TimePoint now) {
  bool all_answer = true, begun = false;
  Verdict verdict;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    all_answer = all_answer && reports[i].has_value();
    if (!reports[i]) continue;
    begun = begun || reports[i]->inside || reports[i]->position.execution_number == run_;
    const bool longer =
        !verdict.device || reports[i]->inside_seconds > reports[*verdict.device]->inside_seconds;
    if (reports[i]->inside && longer) verdict.device = i;
  }
  if (!begun || has_moved(reports, now)) {
    moved_ = now;
    at_last_move_ = reports;
    told_.reset();
  }
  verdict.stalled_for = now - *moved_;
  if (verdict.device && limits_.longest_op &&
      reports[*verdict.device]->inside_seconds >= in_seconds(*limits_.longest_op)) {
    verdict.kind = Kind::kOpTooLong;
  } else if (verdict.stalled_for >= limits_.no_progress) {
    const bool due = !told_ || now - *told_ >= limits_.no_progress;
    if (all_answer && !verdict.device) verdict.kind = Kind::kDeadlock;
    else if (due) verdict.kind = Kind::kStalled;
    if (due) told_ = now;
  }
  return verdict;
}

}  // namespace weft::mesh
