#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/simulate.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// A pipeline for which a schedule is wanted. A value.
struct SearchRequest {
  std::vector<int> actor_of_stage;
  int microbatches = 1;
  ScheduleCosts costs;  ///< Per stage and edge, measured or estimated.
  /// Cap of each actor in the unit of the costs; empty: none.
  std::vector<double> memory_of_actor;
  /// Where the vocabulary is: with vocab-1 and vocab-2 all schedules have S, T, IF and IB, by
  /// with_vocabulary(), and these are moved like W. Not interlaced.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  SimulationOptions simulation = {};  ///< What the schedule is judged by; details do not matter.
  /// Effort: simulated actions, over all candidates; 0: search_budget(). The same request gives the
  /// same schedule, on any machine.
  std::int64_t budget = 0;
};

/// The effort that a schedule of this size is worth: thousands of candidates for a short one, fifty
/// for one of a hundred thousand actions; a fraction of a second for all but the longest, and two
/// seconds for these.
std::int64_t search_budget(std::size_t stages, int microbatches);

/// A schedule that was tried.
struct SearchCandidate {
  std::string name;
  double makespan = 0;
  double peak = 0;
  bool fits = true;  ///< In the memory.
};

struct SearchResult {
  Schedule schedule;  ///< Called "auto".
  ScheduleSimulation simulation;
  std::vector<SearchCandidate> named;  ///< The named schedules of this placement.
  /// What it was improved from: a named schedule, or "list scheduling".
  std::string from;
  std::int64_t simulated = 0;  ///< Actions.
  /// No order of the same work on the same actors makes a faster step, whatever the memory.
  double bound = 0;
  /// The same within the memory asked for; the search ends when it is reached. Often no schedule
  /// reaches it.
  double bound_in_memory = 0;
};

/// Searches how many forwards each stage runs ahead, where weight gradients go, and the order of
/// everything, for the least makespan within the memory. Starts from every named schedule of the
/// same placement, from periodic patterns, and from list scheduling with many settings, changes
/// these stage by stage, then moves single actions: along the critical path, and at random with
/// threshold accepting. Never worse in simulation than a named schedule of the placement that fits.
/// Microbatches keep their order on every stage and edge. Pure and deterministic. Throws
/// Error(kResourceExhausted) if nothing fits, naming the actor.
SearchResult search_schedule(const SearchRequest& request);

/// The same, free to place stages: one on each of `actors`, or cut in two and placed in a loop or a
/// V. `costs` has one stage per actor. Gives the best of them, with the least bounds of all;
/// `placed_costs` receives the costs of the stages that it has.
SearchResult search_placed_schedule(int actors, SearchRequest request, ScheduleCosts& placed_costs);

}  // namespace weft::mesh
