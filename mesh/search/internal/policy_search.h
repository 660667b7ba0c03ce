#pragma once

#include <cstdint>
#include <vector>

#include "mesh/search/internal/list_scheduler.h"
#include "mesh/search/internal/local_search.h"

namespace weft::mesh {

/// Of a schedule: F, I and W.
std::int64_t num_actions(std::size_t stages, int microbatches);

/// A schedule by list scheduling, and the policy behind it.
struct Listed {
  ListPolicy policy;
  Schedule schedule;
  ScheduleScore score;
};

/// Tries policies that are the same for all stages: every combination, or, where that would take
/// too much of the effort, one choice after the other, each as it is best. Gives those that fit,
/// the best first.
std::vector<Listed> try_uniform_policies(Judge& judge);

/// Patterns with the shortest period of which the actors' memory allows, and some that are slower
/// in the long run but begin and end sooner: unrolled, and as what list scheduling goes by. Gives
/// those that fit.
struct Patterned {
  std::vector<Schedule> unrolled;
  std::vector<Listed> listed;
};
Patterned try_patterns(Judge& judge);

/// Changes the numbers in flight of all stages or of one, or the rule for W of one actor, as long
/// as that helps and the judge has simulated less than `until`.
Listed tune(Listed best, Judge& judge, std::int64_t until);

}  // namespace weft::mesh
