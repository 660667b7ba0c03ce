#include "mesh/executor/progress_judge.h"

#include <algorithm>

namespace weft::mesh {

Nanoseconds ProgressJudge::interval() const {
  const Nanoseconds shortest =
      limits_.longest_op ? std::min(limits_.no_progress, *limits_.longest_op) : limits_.no_progress;
  return std::clamp<Nanoseconds>(shortest / 4, std::chrono::milliseconds(20),
                                 std::chrono::seconds(1));
}

bool ProgressJudge::has_moved(const Reports& reports) {
  seen_.resize(reports.size());
  bool moved = false;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i]) continue;
    const Seen now{reports[i]->finished, reports[i]->moved_bytes};
    moved = moved || seen_[i] != now;
    seen_[i] = now;
  }
  return moved;
}

ProgressJudge::Verdict ProgressJudge::look(const Reports& reports, TimePoint now) {
  bool all_answer = true, begun = false;
  Verdict verdict;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    all_answer = all_answer && reports[i].has_value();
    if (!reports[i]) continue;
    begun = begun || reports[i]->inside || reports[i]->position.run == run_;
    const bool longer =
        !verdict.device || reports[i]->inside_seconds > reports[*verdict.device]->inside_seconds;
    if (reports[i]->inside && longer) verdict.device = i;
  }
  if (has_moved(reports) || !begun || !moved_) {
    moved_ = now;
    told_.reset();
  }
  verdict.still = now - *moved_;
  if (verdict.device && limits_.longest_op &&
      reports[*verdict.device]->inside_seconds >= in_seconds(*limits_.longest_op)) {
    verdict.kind = Kind::kOpTooLong;
  } else if (verdict.still >= limits_.no_progress) {
    const bool due = !told_ || now - *told_ >= limits_.no_progress;
    if (all_answer && !verdict.device) verdict.kind = Kind::kDeadlock;
    else if (due) verdict.kind = Kind::kStill;
    if (due) told_ = now;
  }
  return verdict;
}

}  // namespace weft::mesh
