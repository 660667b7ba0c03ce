#pragma once

#include <cstdint>

#include "apps/selection/selection_run.h"

namespace weft::apps {

/// Forecast of the peak memory, in bytes, of a worker process during selection, if it is the only
/// worker. More workers need less each. A value.
struct SelectionMemory {
  std::uint64_t base = 0;       ///< An idle worker.
  std::uint64_t exchange = 0;   ///< Blocks of exchanges, sent and being filled.
  std::uint64_t spills = 0;     ///< Blocks of files being written, and one being read.
  std::uint64_t partition = 0;  ///< Largest partition of any round, with the state of greedy.
  std::uint64_t shard = 0;      ///< State of one shard's points.

  /// Returns the peak. Partitions are solved at another time than points are spilled and bounds
  /// kept.
  std::uint64_t peak() const;
};

/// Forecasts the memory of a plan with known partitions. `edges` counts the directed edges of all
/// `points`.
SelectionMemory forecast_memory(const SelectionPlan& plan, std::uint64_t points,
                                std::uint64_t edges, std::uint32_t shards);

/// Sets exchange_budget, spill blocks and, if plan.rounds.partitions is 0, about the fewest
/// partitions that fit into `memory` bytes (0: no limit). If the limit is too small, throws
/// Error(kInvalidArgument), which names the smallest sufficient one. Does not throw if partitions
/// are given and `ignore_memory_forecast` is set.
void fit_to_memory(SelectionPlan& plan, std::uint64_t memory, std::uint64_t points,
                   std::uint64_t edges, std::uint32_t shards, bool ignore_memory_forecast = false);

/// Buffer sizes of GraphSettings under a memory limit.
struct GraphMemory {
  std::uint64_t cells = 0;     ///< GraphSettings::memory
  std::uint64_t exchange = 0;  ///< GraphSettings::exchange_budget
};
GraphMemory graph_memory(std::uint64_t cap);

/// Forecasts the minimum memory, in bytes, of a worker process that builds the graph of vectors
/// under a limit: the k-means sample or a shard, and buffers. A higher limit lets it hold more
/// cells at a time.
std::uint64_t forecast_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                                    std::uint64_t cap);
/// Throws Error(kInvalidArgument), which names the smallest sufficient limit, if `cap` (0: none) is
/// too small.
void check_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                        std::uint64_t cap);

}  // namespace weft::apps
