#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/greedy.h"

namespace weft::apps {

/// Of how many points a round leaves how many (Böther et al., section 5):
/// ceil(delta * (rounds - round) * (points - count) / rounds) + count. `round`: from 1; `points`:
/// of the whole ground set; `delta` in thousandths. The last round leaves `count`.
std::uint64_t points_after_round(std::uint64_t points, std::uint64_t count, std::uint32_t rounds,
                                 std::uint32_t round, std::uint32_t delta);

/// As few partitions as hold so many points, of which each holds `capacity`. Of the points that a
/// round begins with: Algorithm 6 takes those that it leaves, and then partitions overflow.
std::uint64_t partitions_for(std::uint64_t points, std::uint64_t capacity);

/// The partition of a point in a round, drawn at random. Whoever knows a neighbour's id knows its
/// partition.
std::uint32_t partition_of(PointId point, std::uint64_t seed, std::uint32_t round,
                           std::uint32_t partitions);

/// How many points each partition chooses, given their sizes: as equal as they can be, `count` in
/// all. Throws Error(kInvalidArgument) if there are fewer points.
std::vector<std::uint64_t> partition_quotas(std::uint64_t count,
                                            std::span<const std::uint64_t> sizes);

/// How a round's points are shared out.
enum class Quotas : std::uint8_t {
  kEqual,
  /// All partitions choose as many as there may be in all, and the best of these stay: for
  /// partitions that are no random samples, such as components.
  kThreshold,
};

struct RoundOptions {
  std::uint64_t count = 1;       ///< To choose.
  std::uint32_t partitions = 1;  ///< One holds ceil(points / partitions),
  std::uint64_t capacity = 0;    ///< or so many, where this is not 0.
  std::uint32_t rounds = 1;
  bool adaptive = true;       ///< As few partitions as hold what is left; else always all.
  std::uint32_t delta = 750;  ///< In thousandths.
  std::uint64_t seed = 0;
  Quotas quotas = Quotas::kEqual;
  /// More partitions after the first round where one of fewer would hold more than so many bytes,
  /// with so many neighbours a point in the mean; 0: whatever they hold.
  std::uint64_t most_bytes = 0;
  double neighbours = 0;
};

/// A round before it is run.
struct PlannedRound {
  std::uint64_t points = 0;  ///< In play.
  std::uint32_t partitions = 1;
  std::uint64_t stay = 0;
};
/// What choosing in one of a round's partitions holds in memory. A forecast: partitions are random.
std::uint64_t partition_bytes(const PlannedRound& round, double neighbours);
/// All rounds of choosing from so many points.
std::vector<PlannedRound> plan_rounds(std::uint64_t points, const RoundOptions& options);

/// What a round did.
struct RoundResult {
  std::uint32_t partitions = 0;
  std::uint64_t largest = 0;  ///< Points of the largest partition.
  std::uint64_t points = 0;   ///< Left.
  double seconds = 0;         ///< It took; measured by SelectionRun alone.
};

struct RoundsResult {
  std::vector<ChosenPoint> chosen;  ///< By row; gains of the last round.
  std::vector<RoundResult> rounds;
};

/// Multi-round partition greedy in one process: what the actors do, for ground sets that are small
/// enough, and one partition for the central reference. Throws Error(kInvalidArgument) for numbers
/// that make no sense.
RoundsResult choose_in_rounds(const PointGraph& graph, const Objective& objective,
                              const RoundOptions& options);

/// The same with partitions that somebody else has made, by row, in one round.
RoundsResult choose_in_partitions(const PointGraph& graph, const Objective& objective,
                                  const RoundOptions& options,
                                  std::span<const std::uint32_t> partition_of_row);

}  // namespace weft::apps
