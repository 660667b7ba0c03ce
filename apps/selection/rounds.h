#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/greedy.h"
#include "apps/selection/point.h"

namespace weft::apps {

/// Returns the number of points that a round leaves (Böther et al., section 5): ceil(delta *
/// (rounds - round) * (points - count) / rounds) + count. `round` counts from 1, `points` is the
/// size of the ground set, and `delta` is in thousandths. The last round leaves `count`.
std::uint64_t points_after_round(std::uint64_t points, std::uint64_t count, std::uint32_t rounds,
                                 std::uint32_t round, std::uint32_t delta);

/// Returns the smallest number of partitions of `capacity` points that hold `points`. Pass the
/// number at the start of a round: the paper's Algorithm 6 takes the number at its end, and then
/// partitions overflow.
std::uint64_t partitions_for(std::uint64_t points, std::uint64_t capacity);

/// Function object that returns the random partition of a point in one round. It can be computed
/// from a neighbour's id alone.
class PartitionAssigner final {
 public:
  PartitionAssigner(std::uint64_t seed, std::uint32_t round, std::uint32_t partitions)
      // Purposes from 2 on; 0 and 1 are for ties and edges.
      : key_(hash_key(seed, std::uint64_t{1} + round)), partitions_(partitions) {}
  std::uint32_t operator()(PointId point) const {
    return draw_below(partitions_, point_hash(point, key_));
  }
  std::uint32_t partitions() const { return partitions_; }

 private:
  std::uint64_t key_;
  std::uint32_t partitions_;
};

/// Returns how many points each partition chooses, given their sizes: as equal as possible, `count`
/// in total. Throws Error(kInvalidArgument) if there are fewer points.
std::vector<std::uint64_t> partition_quotas(std::uint64_t count,
                                            std::span<const std::uint64_t> sizes);

/// Division of a round's points among partitions.
enum class Quotas : std::uint8_t {
  kEqual,
  /// Every partition chooses up to the total, and the best of all stay. For partitions that are not
  /// random samples, such as components.
  kThreshold,
};

struct RoundOptions {
  std::uint64_t count = 1;  ///< Number of points to choose.
  std::uint32_t partitions = 1;
  std::uint64_t capacity = 0;  ///< Points per partition. 0 for ceil(points / partitions).
  std::uint32_t rounds = 1;
  bool adaptive = true;       ///< Use the fewest partitions that hold the remaining points; else
                              ///< always all.
  std::uint32_t delta = 750;  ///< Thousandths.
  std::uint64_t seed = 0;
  Quotas quotas = Quotas::kEqual;
  /// Maximum bytes of a partition after the first round, given the mean number of neighbours a
  /// point. More partitions are used if needed. 0 for no limit.
  std::uint64_t most_bytes = 0;
  double neighbours = 0;
};

/// Round before it runs.
struct PlannedRound {
  std::uint64_t points = 0;  ///< Points at its start.
  std::uint32_t partitions = 1;
  std::uint64_t stay = 0;
};
/// Forecasts the memory of choosing in one partition of a round. Partitions are random.
std::uint64_t partition_bytes(const PlannedRound& round, double neighbours);
/// Plans all rounds of choosing from `points` points.
std::vector<PlannedRound> plan_rounds(std::uint64_t points, const RoundOptions& options);

/// Result of a round.
struct RoundResult {
  std::uint32_t partitions = 0;
  std::uint64_t largest = 0;  ///< Size of the largest partition.
  std::uint64_t points = 0;   ///< Points left.
  double seconds = 0;         ///< Duration. Set by SelectionRun alone.
};

struct RoundsResult {
  std::vector<ChosenPoint> chosen;  ///< Chosen points by row, with the gains of the last round.
  std::vector<RoundResult> rounds;
};

/// Runs multi-round partition greedy in one process, as the workers do on larger ground sets. With
/// one partition, it is the central reference. Throws Error(kInvalidArgument) for invalid options.
RoundsResult choose_in_rounds(const PointGraph& graph, const Objective& objective,
                              const RoundOptions& options);

/// Runs one round with given partitions, by row.
RoundsResult choose_in_partitions(const PointGraph& graph, const Objective& objective,
                                  const RoundOptions& options,
                                  std::span<const std::uint32_t> partition_of_row);

}  // namespace weft::apps
