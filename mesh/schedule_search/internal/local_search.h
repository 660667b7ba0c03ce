#pragma once

#include <cstdint>

#include "mesh/schedule_search/search.h"

namespace weft::mesh {

/// How good a schedule is: how long a step takes, then how early the work gets done. Less is better.
struct ScheduleScore {
  double step = 0;  ///< The makespan, where the costs say nothing of what a step ends with.
  double mean_end = 0;
  friend auto operator<=>(const ScheduleScore&, const ScheduleScore&) = default;
};

/// Simulates schedules against the request's memory, and counts the effort.
class Judge {
 public:
  explicit Judge(const SearchRequest& request) : request_(request) {}

  /// Nothing if it cannot finish. `fits` says whether every actor's memory is enough.
  struct Verdict {
    ScheduleScore score;
    double makespan = 0;
    double peak = 0;
    bool finishes = false;
    bool fits = false;
  };
  Verdict judge(const Schedule& schedule);
  /// With all details; for a schedule that finishes.
  Simulation play(const Schedule& schedule);

  std::int64_t simulated() const { return simulated_; }
  bool exhausted() const { return simulated_ >= request_.budget; }
  const SearchRequest& request() const { return request_; }

 private:
  Simulation simulated(const Schedule& schedule, bool details);

  const SearchRequest& request_;
  std::int64_t simulated_ = 0;
};

/// Moves one action at a time along the critical path, as long as that makes the schedule better and the judge is not exhausted.
/// `schedule` must finish and fit.
Schedule improve(Schedule schedule, Judge& judge);

/// Threshold accepting (Dueck and Scheuer, 1990): random moves of single actions, of which those that make it a little worse are
/// kept at first, and ever fewer of them later. Goes on for `actions` more simulated actions; gives the best on the way.
/// Deterministic.
Schedule anneal(Schedule schedule, Judge& judge, std::int64_t actions);

}  // namespace weft::mesh
