#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "mesh/search/internal/search_evaluator.h"
#include "mesh/search/search.h"

namespace weft::mesh {

/// How good a schedule is: how long a step takes, then how early the work gets done. Less is
/// better.
struct ScheduleScore {
  double step = 0;  ///< The makespan, where the costs say nothing of what a step ends with.
  double mean_end = 0;
  friend auto operator<=>(const ScheduleScore&, const ScheduleScore&) = default;
};

/// Simulates schedules against the request's memory, and counts the effort.
class Judge {
 public:
  explicit Judge(const SearchRequest& request) : request_(request) {
    if (SearchEvaluator::knows(request)) evaluator_.emplace(request);
  }

  /// Nothing if it cannot finish. `fits` says whether every actor's memory is enough.
  struct Verdict {
    ScheduleScore score;
    double makespan = 0;
    double peak = 0;  ///< Only of judge_fully().
    bool finishes = false;
    bool fits = false;
  };
  /// One whose step takes longer than `longest_step` may be called one that does not finish.
  Verdict judge(const Schedule& schedule,
                double longest_step = std::numeric_limits<double>::infinity());
  Verdict judge_fully(const Schedule& schedule);

  /// When everything ran, of a schedule that finishes.
  struct Look {
    /// By actor, by action: start and end.
    std::vector<std::vector<std::pair<double, double>>> spans;
    /// Actor and index of actions of the critical path that begin when the one before them on their
    /// actor ends.
    std::vector<std::pair<int, int>> held_up_by_order;
  };
  Look look(const Schedule& schedule);

  std::int64_t simulated() const { return simulated_; }
  bool exhausted() const { return simulated_ >= request_.budget; }
  const SearchRequest& request() const { return request_; }

 private:
  Verdict verdict_of(const SearchEvaluator::Outcome& outcome) const;
  std::optional<ScheduleSimulation> simulated(const Schedule& schedule, bool details);

  const SearchRequest& request_;
  std::optional<SearchEvaluator> evaluator_;
  std::int64_t simulated_ = 0;
};

/// Moves one action at a time along the critical path, as long as that makes the schedule better
/// and the judge is not exhausted. `schedule` must finish and fit.
Schedule improve(Schedule schedule, Judge& judge);

/// Threshold accepting (Dueck and Scheuer, 1990): random moves of single actions, of which those
/// that make it a little worse are kept at first, and ever fewer of them later. Goes on for
/// `actions` more simulated actions; gives the best on the way. Deterministic.
Schedule anneal(Schedule schedule, Judge& judge, std::int64_t actions);

}  // namespace weft::mesh
