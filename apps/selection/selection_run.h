#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/selection/rounds.h"
#include "apps/selection/selection_messages.h"
#include "apps/selection/selection_worker.h"
#include "apps/selection/worker_group.h"
#include "core/base/clock.h"

namespace weft::apps {

using SelectionWorkers = WorkerGroup<SelectionWorker>;

/// Options of a selection. A value.
struct SelectionPlan {
  SelectionSettings settings;
  RoundOptions rounds;  ///< Count and seed are ignored; those of the settings are used.
};

/// Progress of a selection: all that is needed to resume. A value.
struct SelectionProgress {
  std::vector<std::uint64_t> decided;  ///< Points decided by each bounding step.
  std::vector<double> step_seconds;    ///< Duration of each bounding step.
  bool bounding_done = false;
  std::uint32_t round = 0;  ///< Last completed round.
  std::vector<RoundResult> rounds;
};

/// Result of a selection.
struct SelectionSummary {
  GroundSet ground_set;
  std::uint64_t chosen = 0;
  std::uint64_t accepted = 0, discarded = 0;  ///< Points decided by bounding.
  int bounding_steps = 0;
  std::vector<RoundResult> rounds;
  std::int64_t score = 0, random_score = 0;
  std::uint64_t point_visits = 0;  ///< Sum over rounds of the points at their start.
  std::string digest;              ///< SHA-256 of the digests of the shards' chosen points.
  std::vector<ResourceUsage> workers;
  std::uint32_t recoveries = 0;
};

/// Driver's side of a selection on workers. Its memory does not grow with the number of points. Use
/// once.
class SelectionRun final {
 public:
  struct Hooks {
    /// Called with a line for users after each phase. May be empty.
    std::function<void(const std::string&)> on_progress = {};
    /// Called with the progress to save for a restarted driver. May be empty.
    std::function<void(const SelectionProgress&)> save_progress = {};
  };

  SelectionRun(SelectionWorkers& workers, SelectionPlan plan, Hooks hooks)
      : workers_(workers), plan_(std::move(plan)), hooks_(std::move(hooks)) {}

  /// Resumes from `progress`, or starts. Throws the workers' errors, except for deaths from which
  /// recover() recovers.
  SelectionSummary run(SelectionProgress progress = {});
  /// Visits the chosen points by ascending id.
  void each_result(const std::function<void(const ResultPoint&)>& visit);
  /// Returns the edges of a few points, by ascending point.
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points);

 private:
  /// Runs `phase`, and runs it again after a worker's death.
  template <typename Phase>
  auto run_with_recovery(const Phase& phase);
  void begin();
  /// Resets the progress if a worker lacks files of completed phases.
  void check_state();
  void bound();
  RoundResult run_round(std::uint32_t round, const PlannedRound& planned);
  /// Runs the rounds that are not done. Returns the number of the last one, or 0 if bounding has
  /// accepted all points.
  std::uint32_t choose_in_rounds();
  /// Completes the summary with the scores and the digest of the chosen points.
  void score(std::uint32_t last_round);
  KthLargest find(RankedValue what, std::uint64_t k);
  void report(const std::string& line) const {
    if (hooks_.on_progress) hooks_.on_progress(line);
  }
  void save_progress() const {
    if (hooks_.save_progress) hooks_.save_progress(progress_);
  }

  SelectionWorkers& workers_;
  SelectionPlan plan_;
  const Hooks hooks_;
  SteadyClock clock_;
  SelectionProgress progress_;
  SelectionSummary summary_;
  bool discard_state_ = true;  ///< True if a new selection has not begun on the workers yet.
  std::uint64_t open_ = 0, wanted_ = 0;  ///< Open points after bounding, and how many of them to
                                         ///< choose.
};

}  // namespace weft::apps
