#pragma once

#include <optional>
#include <vector>

#include "mesh/search/internal/periodic.h"
#include "mesh/search/search.h"

namespace weft::mesh {

/// How list scheduling chooses among what an actor could start.
struct ListPolicy {
  enum class Weights : std::uint8_t {
    kAtOnce,  ///< Right behind the input gradient.
    kInGaps,  ///< When nothing else is ready and nothing will be for as long as W takes.
    kLast,    ///< When nothing else is ready, or memory asks for it.
  };
  std::vector<int> in_flight;    ///< Per stage: microbatches that may be between F and I.
  std::vector<Weights> weights;  ///< Per actor.
  bool forward_first = false;    ///< Where both a forward and a backward are ready.
  bool deep_first = true;        ///< Among forwards of several stages the latest stage first.
  /// Instead of these rules: what is first in this pattern. What comes later in it is only done
  /// before it while the actor would stand still: under kAtOnce in any case, under kInGaps only if
  /// that holds up nothing that is known to come.
  std::optional<PeriodicPattern> pattern;
};

/// The same everywhere: W by one rule, and `fullness` times the microbatches that keep the pipeline
/// full in flight; 0: any number. A stage that is k-th from the end sees a microbatch again after
/// the way there and back; the pipeline is full when as many are under way as the busiest actor
/// finishes in that time.
ListPolicy uniform_policy(const SearchRequest& request, double fullness,
                          ListPolicy::Weights weights);

/// By the pattern, with as many microbatches in flight as it needs and, on the first stages, `more`
/// of what memory is left.
ListPolicy pattern_policy(const SearchRequest& request, const PeriodicPattern& pattern, double more,
                          ListPolicy::Weights weights);

/// Plays the pipeline in time and lets every actor start, whenever it is free, what the policy
/// prefers among what is ready. Every stage takes microbatches in order, and leaves room in memory
/// for one on each later stage of its actor. Nothing if the policy gets stuck for want of memory.
std::optional<Schedule> list_schedule(const SearchRequest& request, const ListPolicy& policy);

}  // namespace weft::mesh
