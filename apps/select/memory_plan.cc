#include "apps/select/memory_plan.h"

#include <algorithm>

#include "apps/selection/graph_run.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::apps {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
/// Measured: see tests/bench/RESULTS.md.
constexpr std::uint64_t kBase = 24 * kMiB;
constexpr std::uint64_t kBoundBytes = 2 * 17;  ///< bounds in memory, and in the buffer of a read or
                                               ///< write
constexpr std::uint64_t kMostExchange = 32 * kMiB, kLeastExchange = 2 * kMiB;
/// Minimum at which a block holds a vector even with many workers.
constexpr std::uint64_t kLeastGraphExchange = 4 * kMiB;
/// Blocks of the search's files, and the vectors of cells.
constexpr std::uint64_t kGraphSpills = 4 * kMiB, kLeastCells = 4 * kMiB;
/// Maximum size of an exchange's block.
constexpr std::uint64_t kFilled = 256 << 10;
constexpr std::uint64_t kMostPartitions = 1 << 16;

std::uint64_t share(std::uint64_t number, std::uint64_t of) { return (number + of - 1) / of; }

/// Returns the exchange budget for a memory limit (0: none).
std::uint64_t exchange_for(std::uint64_t memory) {
  return memory == 0 ? kMostExchange : std::clamp(memory / 10, kLeastExchange, kMostExchange);
}

std::uint64_t spill_block_for(std::uint64_t memory, std::uint32_t partitions) {
  const std::uint64_t most = memory == 0 ? 64 * kMiB : memory / 10;
  return std::clamp<std::uint64_t>(most / partitions / 4096 * 4096, 16 << 10, kMiB);
}

}  // namespace

std::uint64_t SelectionMemory::peak() const {
  return base + exchange + std::max(spills + shard, partition);
}

SelectionMemory forecast_memory(const SelectionPlan& plan, std::uint64_t points,
                                std::uint64_t edges, std::uint32_t shards) {
  const RoundOptions& rounds = plan.rounds;
  SelectionMemory memory;
  memory.base = kBase;
  // and the blocks being filled, one for each rank
  memory.exchange = plan.settings.exchange_budget + 2 * kFilled;
  memory.spills = plan.settings.spill_block * rounds.partitions + 2 * kMiB;
  memory.shard = share(points, shards) * (plan.settings.use_bounding ? kBoundBytes : 1);
  RoundOptions options = rounds;
  options.count = plan.settings.count;
  const double neighbours = static_cast<double>(edges) / static_cast<double>(points);
  for (const PlannedRound& round : plan_rounds(points, options))
    memory.partition = std::max(memory.partition, partition_bytes(round, neighbours) + kMiB);
  return memory;
}

GraphMemory graph_memory(std::uint64_t cap) {
  if (cap == 0) return {GraphSettings().memory, GraphSettings().exchange_budget};
  const std::uint64_t exchange =
      std::clamp(cap / 10, kLeastGraphExchange, GraphSettings().exchange_budget);
  const std::uint64_t others = kBase + exchange + 2 * kFilled + kGraphSpills;
  return {std::max(cap > others ? (cap - others) / 2 : 0, kLeastCells), exchange};
}

std::uint64_t forecast_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                                    std::uint64_t cap) {
  const bool exact = points < GraphPlan().exact_below;
  std::uint64_t most = std::max(
      GraphWorker::bytes_at_least(points, width, shards, exact ? 0 : default_num_cells(points)),
      kGraphSpills);
  if (!exact) most = std::max(most, kGraphSpills + kLeastCells);
  return kBase + graph_memory(cap).exchange + 2 * kFilled + most;
}

void check_graph_memory(std::uint64_t points, std::uint64_t width, std::uint32_t shards,
                        std::uint64_t cap) {
  const auto fits = [&](std::uint64_t bytes) {
    return forecast_graph_memory(points, width, shards, bytes) <= bytes;
  };
  if (cap == 0 || fits(cap)) return;
  std::uint64_t least = cap / kMiB + 1;
  while (!fits(least * kMiB)) ++least;
  throw_error(ErrorCode::kInvalidArgument,
              "cluster.memory is {}, too small to make the graph of {} points of {} numbers each; "
              "set it to at least {} MiB",
              format_bytes(cap), points, width, least);
}

void fit_to_memory(SelectionPlan& plan, std::uint64_t memory, std::uint64_t points,
                   std::uint64_t edges, std::uint32_t shards, bool ignore_memory_forecast) {
  const auto with = [&](std::uint32_t partitions, std::uint64_t cap) {
    plan.rounds.partitions = partitions;
    plan.settings.exchange_budget = exchange_for(cap);
    plan.settings.spill_block = spill_block_for(cap, partitions);
    // Limit for a partition of a later round, when fewer partitions are used.
    const std::uint64_t others = kBase + plan.settings.exchange_budget + 2 * kFilled + kMiB;
    plan.rounds.most_bytes = cap > others ? cap - others : 0;
    plan.rounds.neighbours = static_cast<double>(edges) / static_cast<double>(points);
    return forecast_memory(plan, points, edges, shards).peak();
  };
  const std::uint32_t asked = plan.rounds.partitions;
  if (asked == 0 && memory == 0) {
    with(1, 0);
    return;
  }
  if (asked == 0) {
    for (std::uint32_t partitions = 1; partitions <= std::min(points, kMostPartitions);
         partitions += 1 + partitions / 16)
      if (with(partitions, memory) <= memory) return;
  } else if (with(asked, memory) <= memory || memory == 0 || ignore_memory_forecast) {
    return;
  }
  // Finds the smallest sufficient limit in whole MiB by bisection.
  std::uint64_t low = memory / kMiB, high = std::uint64_t{1} << 24;
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    bool fits = false;
    if (asked != 0) {
      fits = with(asked, middle * kMiB) <= middle * kMiB;
    } else {
      for (std::uint32_t partitions = 1; !fits && partitions <= std::min(points, kMostPartitions);
           partitions += 1 + partitions / 16)
        fits = with(partitions, middle * kMiB) <= middle * kMiB;
    }
    (fits ? high : low) = middle;
  }
  throw_error(
      ErrorCode::kInvalidArgument,
      "cluster.memory is {}, too small to select from {} points{}; set it to at least {} MiB{}",
      format_bytes(memory), points,
      asked == 0 ? "" : " in " + std::to_string(asked) + " partitions", high,
      asked == 0 ? "" : ", or use more partitions");
}

}  // namespace weft::apps
