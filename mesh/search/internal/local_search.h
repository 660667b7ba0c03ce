#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "mesh/search/internal/search_evaluator.h"
#include "mesh/search/search.h"

namespace weft::mesh {

/// Quality of a schedule: first the step time, then how early work is done. Less is better.
struct ScheduleScore {
  /// Step time; equals the makespan if the costs have no reductions, optimizer and exchange.
  double step = 0;
  double mean_action_end = 0;
  friend auto operator<=>(const ScheduleScore&, const ScheduleScore&) = default;
};

/// Evaluates schedules within the request's memory, and counts the simulated actions.
class ScheduleEvaluator {
 public:
  explicit ScheduleEvaluator(const SearchRequest& request) : request_(request) {
    if (SearchEvaluator::supports(request)) evaluator_.emplace(request);
  }

  /// Result of an evaluation; only `finishes` is valid if it is false. `fits` is true if every
  /// actor's memory suffices.
  struct ScheduleEvaluation {
    ScheduleScore score;
    double makespan = 0;
    double peak = 0;  ///< Set by evaluate_with_peak() only.
    bool finishes = false;
    bool fits = false;
  };
  /// Evaluates a schedule. May report a schedule with a step longer than `longest_step` as not
  /// finishing.
  ScheduleEvaluation evaluate(const Schedule& schedule,
                              double longest_step = std::numeric_limits<double>::infinity());
  ScheduleEvaluation evaluate_with_peak(const Schedule& schedule);

  /// Times of a schedule that finishes.
  struct Times {
    /// Start and end, by actor and action.
    std::vector<std::vector<std::pair<double, double>>> spans;
    /// Actions of the critical path, as (actor, index), that start when the previous action on
    /// their actor ends.
    std::vector<std::pair<int, int>> blocked_by_order;
  };
  Times times_of(const Schedule& schedule);

  std::int64_t simulated() const { return simulated_; }
  bool exhausted() const { return simulated_ >= request_.budget; }
  const SearchRequest& request() const { return request_; }

 private:
  /// Returns whether the quick evaluator supports the schedule: it knows no compounds.
  bool plays(const Schedule& schedule) const;
  ScheduleEvaluation evaluation_of(const SearchEvaluator::PlayOutcome& outcome) const;
  std::optional<ScheduleSimulation> simulated(const Schedule& schedule, bool details);

  const SearchRequest& request_;
  std::optional<SearchEvaluator> evaluator_;
  std::int64_t simulated_ = 0;
};

/// Moves single actions along the critical path while that improves the schedule and the evaluator
/// is not exhausted. `schedule` must finish and fit.
Schedule improve(Schedule schedule, ScheduleEvaluator& evaluator);

/// Improves a schedule by threshold accepting (Dueck and Scheuer, 1990): random moves of single
/// actions. Accepts slightly worse schedules at first, and fewer over time. Simulates `actions`
/// more actions and returns the best schedule found. Deterministic.
Schedule anneal(Schedule schedule, ScheduleEvaluator& evaluator, std::int64_t actions);

}  // namespace weft::mesh
