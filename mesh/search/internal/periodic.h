#pragma once

#include <array>
#include <optional>
#include <vector>

#include "mesh/search/search.h"

namespace weft::mesh {

/// Start times of microbatch 0's F, I and W on every stage. Microbatch k starts all of them k *
/// `period` later.
struct PeriodicPattern {
  double period = 0;
  std::vector<std::array<double, 3>> starts;  ///< Starts of F, I and W, by stage.
};

/// Returns a lower bound of the period: the busiest actor's work per microbatch, or the longest
/// transfer.
double shortest_period(const SearchRequest& request);

/// Finds a pattern by modulo scheduling, as compilers pipeline loops (Rau, 1994). V-Half and V-Min
/// are such patterns (Qi et al., 2024, with actions of one unit and transfers of zero). Each action
/// of one microbatch starts as early as its dependencies allow, such that the actions of an actor
/// do not overlap modulo the period. Keeps a beam of the earliest partial patterns. Returns nothing
/// if no pattern is found.
std::optional<PeriodicPattern> find_pattern(const SearchRequest& request, double period);

/// Returns whether every actor's memory suffices when the pipeline is full.
bool fits_in_memory(const SearchRequest& request, const PeriodicPattern& pattern);

/// Returns the schedule in which the pattern runs all microbatches.
Schedule unroll(const SearchRequest& request, const PeriodicPattern& pattern);

}  // namespace weft::mesh
