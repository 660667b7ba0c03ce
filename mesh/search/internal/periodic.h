#pragma once

#include <array>
#include <optional>
#include <vector>

#include "mesh/search/search.h"

namespace weft::mesh {

/// When microbatch 0 goes through F, I and W of every stage; microbatch k follows `period` times k
/// later, through all of them.
struct PeriodicPattern {
  double period = 0;
  std::vector<std::array<double, 3>> starts;  ///< By stage: F, I, W.
};

/// No pattern has a shorter period: the work of the busiest actor on a microbatch, or the longest
/// transfer.
double shortest_period(const SearchRequest& request);

/// Modulo scheduling, as compilers pipeline loops (Rau, 1994), and as V-Half and V-Min are built
/// (Qi et al., 2024, where every action takes one unit and a transfer nothing): the actions of one
/// microbatch get places in time, each as early as may be behind what it needs, such that those of
/// an actor do not overlap modulo the period. A beam of partial patterns is kept, the earliest
/// ones. Nothing if none is found.
std::optional<PeriodicPattern> find_pattern(const SearchRequest& request, double period);

/// Whether every actor's memory is enough once the pipeline is full.
bool fits_in_memory(const SearchRequest& request, const PeriodicPattern& pattern);

/// The order in which the pattern runs all microbatches.
Schedule unroll(const SearchRequest& request, const PeriodicPattern& pattern);

}  // namespace weft::mesh
