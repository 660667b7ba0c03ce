#pragma once

#include <optional>
#include <vector>

#include "mesh/search/internal/periodic.h"
#include "mesh/search/search.h"

namespace weft::mesh {

/// Priorities of list scheduling among the actions that an actor could start.
struct ListPolicy {
  enum class Weights : std::uint8_t {
    kImmediately,  ///< Directly after the input gradient.
    kInGaps,       ///< If no other action is ready, or will be ready before W ends.
    kLast,         ///< If no other action is ready, or memory is short.
  };
  std::vector<int> in_flight;    ///< Most microbatches between F and I, per stage.
  std::vector<Weights> weights;  ///< Rule for W, per actor.
  bool forward_first = false;    ///< Prefers a forward over a backward if both are ready.
  bool deep_first = true;        ///< Prefers the forward of the latest stage.
  /// Replaces these rules: the action that is first in this pattern has priority. A later action
  /// runs before it only while the actor would be idle: with kImmediately always, with kInGaps only
  /// if it delays no action with a known ready time.
  std::optional<PeriodicPattern> pattern;
};

/// Returns a policy with one rule for W and `fullness` times as many microbatches in flight as keep
/// the pipeline full; 0: unlimited. A microbatch returns to a stage after its forwards and
/// backwards on all later stages. The pipeline is full if as many are in flight as the busiest
/// actor completes in that time.
ListPolicy uniform_policy(const SearchRequest& request, double fullness,
                          ListPolicy::Weights weights);

/// Returns a policy that follows the pattern, with as many microbatches in flight as the pattern
/// needs. The first stage of each actor gets additional ones, for which `spare_memory_share` of the
/// remaining memory is used.
ListPolicy pattern_policy(const SearchRequest& request, const PeriodicPattern& pattern,
                          double spare_memory_share, ListPolicy::Weights weights);

/// Builds a schedule by simulating the pipeline: each free actor starts the ready action that the
/// policy prefers. Every stage runs microbatches in order, and leaves memory for one microbatch on
/// each later stage of its actor. Returns nothing if the policy runs out of memory before all
/// actions are placed.
std::optional<Schedule> list_schedule(const SearchRequest& request, const ListPolicy& policy);

}  // namespace weft::mesh
