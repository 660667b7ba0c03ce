#pragma once

#include <optional>
#include <vector>

#include "mesh/schedule_search/search.h"

namespace weft::mesh {

/// How list scheduling chooses among what an actor could start.
struct ListPolicy {
  /// Microbatches that may be between F and I on a stage, as a multiple of what keeps the pipeline full; 0: any number.
  double in_flight = 1;
  enum class Weights : std::uint8_t {
    kAtOnce,  ///< Right behind the input gradient.
    kInGaps,  ///< When nothing else is ready and nothing will be for as long as W takes.
    kLast,    ///< When nothing else is ready, or memory asks for it.
  } weights = Weights::kInGaps;
  bool forward_first = false;  ///< Where both a forward and a backward are ready.
  bool deep_first = true;      ///< Among forwards of several stages the latest stage first.
};

/// Plays the pipeline in time and lets every actor start, whenever it is free, what the policy prefers among what is ready. Every
/// stage takes microbatches in order. Nothing if the policy gets stuck for want of memory.
std::optional<Schedule> list_schedule(const SearchRequest& request, const ListPolicy& policy);

}  // namespace weft::mesh
