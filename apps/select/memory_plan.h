#pragma once

#include <cstdint>

#include "apps/selection/selection_run.h"

namespace weft::apps {

/// What a worker process holds at most while it selects, in bytes, where it is the only one: more
/// workers hold less each. A forecast. A value.
struct SelectionMemory {
  std::uint64_t base = 0;       ///< Of a worker that does nothing.
  std::uint64_t exchange = 0;   ///< Blocks of exchanges, and those that are being filled.
  std::uint64_t spills = 0;     ///< Blocks of files that are being written, and one that is read.
  std::uint64_t partition = 0;  ///< The largest partition of any round, and what greedy needs.
  std::uint64_t shard = 0;      ///< What is known of one shard's points.

  /// Points are dealt, partitions choose, bounds are kept: not at the same time.
  std::uint64_t most() const;
};

/// Of a plan with its partitions. `edges`: directed, of all `points`.
SelectionMemory forecast_memory(const SelectionPlan& plan, std::uint64_t points,
                                std::uint64_t edges, std::uint32_t shards);

/// Chooses exchange_budget, spill blocks and, where plan.rounds.partitions is 0, as few partitions
/// as keep to `memory` bytes (0: no cap). Throws Error(kInvalidArgument) naming the least cap that
/// works where this one does not, unless partitions are given and it is to be tried all the same.
void fit_to_memory(SelectionPlan& plan, std::uint64_t memory, std::uint64_t points,
                   std::uint64_t edges, std::uint32_t shards, bool although_too_little = false);

/// Of GraphSettings, under a cap (0: none).
struct GraphMemory {
  std::uint64_t cells = 0;     ///< GraphSettings::memory
  std::uint64_t exchange = 0;  ///< GraphSettings::exchange_budget
};
GraphMemory graph_memory(std::uint64_t cap);

/// What a worker process holds at least while it makes the graph of vectors under a cap: the sample
/// of k-means or a shard, and what is read beside it. Where the cap allows more, more cells are
/// held at a time. In bytes, a forecast.
std::uint64_t forecast_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                                    std::uint64_t cap);
/// Throws Error(kInvalidArgument) naming the least cap that works where this one (0: none) does
/// not.
void check_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                        std::uint64_t cap);

}  // namespace weft::apps
