#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/schedule/schedule.h"
#include "mesh/schedule/simulate.h"
#include "mesh/schedule/vocabulary.h"

namespace weft::mesh {

/// Pipeline and costs for which to find a schedule. A value.
struct SearchRequest {
  std::vector<int> actor_of_stage;
  int microbatches = 1;
  ScheduleCosts costs;  ///< Measured or estimated costs per stage and edge.
  /// Memory limit of each actor in the unit of the costs; empty if unlimited.
  std::vector<double> memory_of_actor;
  /// Placement of the vocabulary. With vocab-1 and vocab-2, all schedules get S, T, IF and IB by
  /// with_vocabulary(), and the search moves these as it moves W. Not kInterlaced.
  VocabularyMode vocabulary = VocabularyMode::kLast;
  /// Simulation by which schedules are compared; `details` is ignored.
  SimulationOptions simulation = {};
  /// Search effort in simulated actions, over all candidates; 0: search_budget(). Equal requests
  /// give equal schedules on any machine.
  std::int64_t budget = 0;
};

/// Returns the default effort for a schedule of this size: thousands of candidates for a short one,
/// fifty for one of a hundred thousand actions. Takes a fraction of a second, and two seconds for
/// the longest schedules.
std::int64_t search_budget(std::size_t stages, int microbatches);

/// Schedule that the search evaluated.
struct SearchCandidate {
  std::string name;
  double makespan = 0;
  double peak = 0;
  bool fits = true;  ///< True if it fits the memory limits.
};

struct SearchResult {
  Schedule schedule;  ///< Best schedule, named "auto".
  ScheduleSimulation simulation;
  std::vector<SearchCandidate> named;  ///< Named schedules of this placement.
  /// Origin of `schedule` before local search: a named schedule, "a periodic pattern" or "list
  /// scheduling".
  std::string improved_from;
  std::int64_t simulated = 0;  ///< Number of simulated actions.
  /// Lower bound of the step time of any order of the same work on the same actors, without memory
  /// limits.
  double bound = 0;
  /// Lower bound within the memory limits. The search ends when it is reached. Often no schedule
  /// reaches it.
  double bound_in_memory = 0;
};

/// Searches for the schedule with the shortest step within the memory. Varies how many forwards
/// each stage runs ahead, where weight gradients go, and the order of all actions. Starts from
/// every named schedule of the placement, from periodic patterns, and from list scheduling with
/// many settings, which it tunes stage by stage. Then moves single actions: along the critical
/// path, and at random with threshold accepting.
///
/// In simulation, the result is never worse than a named schedule of the placement that fits.
/// Microbatches keep their order on every stage and edge. Pure and deterministic. Throws
/// Error(kResourceExhausted) if no schedule fits; names the actor if it cannot hold one microbatch.
SearchResult search_schedule(const SearchRequest& request);

/// Searches as search_schedule() does, over three placements: one stage per actor, or two per actor
/// in a loop or a V. `costs` has one stage per actor. Returns the best result, with the least
/// bounds over all placements. `placed_costs` receives the costs of the result's stages.
SearchResult search_placed_schedule(int actors, SearchRequest request, ScheduleCosts& placed_costs);

}  // namespace weft::mesh
