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

/// Returns the device that has been inside an op or handler for the longest time.
std::optional<std::size_t> StallDetector::longest_inside(const Reports& reports) {
  std::optional<std::size_t> device;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i] || !reports[i]->inside) continue;
    if (!device || reports[i]->inside_seconds > reports[*device]->inside_seconds) device = i;
  }
  return device;
}

StallDetector::Verdict StallDetector::check(const Reports& reports, TimePoint now) {
  const bool begun = std::ranges::any_of(reports, [&](const std::optional<DeviceProgress>& report) {
    return report && (report->inside || report->position.execution_number == run_);
  });
  if (!begun || has_moved(reports, now)) {
    moved_ = now;
    at_last_move_ = reports;
    told_.reset();
  }
  Verdict verdict{Kind::kProgressing, now - *moved_, longest_inside(reports)};
  if (verdict.device && limits_.longest_op &&
      reports[*verdict.device]->inside_seconds >= in_seconds(*limits_.longest_op)) {
    verdict.kind = Kind::kOpTooLong;
  } else if (verdict.stalled_for >= limits_.no_progress) {
    const bool all_answer = std::ranges::all_of(
        reports, [](const std::optional<DeviceProgress>& report) { return report.has_value(); });
    const bool due = !told_ || now - *told_ >= limits_.no_progress;
    if (all_answer && !verdict.device) verdict.kind = Kind::kDeadlock;
    else if (due) verdict.kind = Kind::kStalled;
    if (due) told_ = now;
  }
  return verdict;
}

}  // namespace weft::mesh
