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

/// What is to be chosen, and how. A value.
struct SelectionPlan {
  SelectionSettings settings;
  RoundOptions rounds;  ///< But for count and seed, which are those of the settings.
};

/// How far a selection is: all that must be known to go on. A value.
struct SelectionProgress {
  std::vector<std::uint64_t> decided;  ///< By each step of bounding.
  std::vector<double> step_seconds;    ///< That each of these took.
  bool bounding_done = false;
  std::uint32_t round = 0;  ///< The last one that is done.
  std::vector<RoundResult> rounds;
};

/// What came of it.
struct SelectionSummary {
  GroundSet ground_set;
  std::uint64_t chosen = 0;
  std::uint64_t accepted = 0, discarded = 0;  ///< By bounding.
  int bounding_steps = 0;
  std::vector<RoundResult> rounds;
  std::int64_t score = 0, random_score = 0;
  std::uint64_t point_visits = 0;  ///< Points in play, summed over rounds.
  std::string digest;              ///< Of the subset: of its shards' digests.
  std::vector<WorkerUse> workers;
  std::uint32_t recoveries = 0;
};

/// Chooses, by workers. State is what SelectionProgress has, whatever the number of points. A
/// driver's, used once.
class SelectionRun final {
 public:
  struct Hooks {
    /// What has just been done, a line for people. May be empty.
    std::function<void(const std::string&)> tell = {};
    /// To be kept, for who goes on after this driver. May be empty.
    std::function<void(const SelectionProgress&)> keep = {};
  };

  SelectionRun(SelectionWorkers& workers, SelectionPlan plan, Hooks hooks)
      : workers_(workers), plan_(std::move(plan)), hooks_(std::move(hooks)) {}

  /// Goes on from `progress`, or begins. Throws what workers throw, but for deaths that recover()
  /// mends.
  SelectionSummary run(SelectionProgress progress = {});
  /// Of the chosen points, by ascending id.
  void each_result(const std::function<void(const ResultPoint&)>& visit);
  /// By ascending point. Some points, not many.
  std::vector<PointNeighbour> neighbours_of(const std::vector<PointId>& points);

 private:
  /// Runs `phase`; again after a death.
  template <typename Phase>
  auto repeat(const Phase& phase);
  void begin();
  /// Forgets the progress, and begins anew, where a worker lacks files of what is done.
  void check_state();
  void bound();
  RoundResult run_round(std::uint32_t round, const PlannedRound& planned);
  KthLargest find(Ranked what, std::uint64_t k);
  void tell(const std::string& line) const {
    if (hooks_.tell) hooks_.tell(line);
  }
  void keep() const {
    if (hooks_.keep) hooks_.keep(progress_);
  }

  SelectionWorkers& workers_;
  SelectionPlan plan_;
  const Hooks hooks_;
  SteadyClock clock_;
  SelectionProgress progress_;
  SelectionSummary summary_;
  bool anew_ = true;  ///< Nothing has been done before, and workers have not begun.
  std::uint64_t open_ = 0, wanted_ = 0;  ///< After bounding: so many of the open are to be chosen.
};

}  // namespace weft::apps
