#pragma once

#include <cstdint>
#include <vector>

#include "mesh/search/internal/list_scheduler.h"
#include "mesh/search/internal/local_search.h"

namespace weft::mesh {

/// Returns the number of F, I and W of a schedule.
std::int64_t num_actions(std::size_t stages, int microbatches);

/// Schedule made by list scheduling, and its policy.
struct ListCandidate {
  ListPolicy policy;
  Schedule schedule;
  ScheduleScore score;
};

/// Tries policies that are equal on all stages: all combinations or, if these exceed the budget,
/// one setting after the other, keeping the best value of each. Returns those that fit, best first.
std::vector<ListCandidate> try_uniform_policies(ScheduleEvaluator& evaluator);

/// Result of try_patterns(): schedules that fit. `unrolled` are the patterns themselves; `listed`
/// are list schedules that follow them.
struct PatternCandidates {
  std::vector<Schedule> unrolled;
  std::vector<ListCandidate> listed;
};
/// Finds patterns with about the shortest period that memory allows, and slower ones, which begin
/// and end sooner.
PatternCandidates try_patterns(ScheduleEvaluator& evaluator);

/// Changes the microbatches in flight of all stages or of one, or the W rule of one actor, while
/// that improves the schedule and the evaluator has simulated fewer than `until` actions.
ListCandidate tune_policy(ListCandidate best, ScheduleEvaluator& evaluator, std::int64_t until);

}  // namespace weft::mesh
