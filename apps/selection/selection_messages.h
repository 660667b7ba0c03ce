#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/selection/bounding.h"
#include "apps/selection/kth_largest.h"
#include "apps/selection/objective.h"
#include "core/base/memory.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// Options that all workers of a selection receive at its start. A value.
struct SelectionSettings {
  std::string points;  ///< Folder of the ground set's store, as each host sees it.
  /// Folder for state that outlives a worker. Used by this run alone, at the same path on each
  /// host.
  std::string scratch;
  bool discard_state = true;                 ///< True to delete the state of an earlier run.
  std::uint64_t count = 0;                   ///< Number of points to choose.
  std::int64_t utility = 1, similarity = 1;  ///< See Objective.
  std::uint64_t seed = 1;
  std::uint32_t sample = 1000;  ///< See EdgeSample::thousandths.
  bool resample_edges = false;  ///< True to sample edges afresh in every step.
  bool use_bounding = false;    ///< True if bounding precedes the rounds.
  std::uint64_t exchange_budget = std::uint64_t{16} << 20;  ///< Bytes; see ExchangeOptions.
  std::uint64_t spill_block = std::uint64_t{1} << 20;       ///< Block of each partition's file, in
                                                            ///< bytes.

  Objective objective() const { return {utility, similarity}; }
  static constexpr auto fields = weft::fields(
      &SelectionSettings::points, &SelectionSettings::scratch, &SelectionSettings::discard_state,
      &SelectionSettings::count, &SelectionSettings::utility, &SelectionSettings::similarity,
      &SelectionSettings::seed, &SelectionSettings::sample, &SelectionSettings::resample_edges,
      &SelectionSettings::use_bounding, &SelectionSettings::exchange_budget,
      &SelectionSettings::spill_block);
};

/// Facts about the ground set after a worker has opened it.
struct GroundSet {
  std::uint64_t points = 0;
  std::uint32_t shards = 0;
  std::uint64_t directed_edges = 0;
  static constexpr auto fields =
      weft::fields(&GroundSet::points, &GroundSet::shards, &GroundSet::directed_edges);
};

/// Numbers of a worker's points among which a k-th largest is searched: bounds of open points, or
/// draws of all points.
enum class RankedValue : std::uint8_t { kAtLeast, kAtMost, kDraw };

struct CountRequest {
  RankedValue what = RankedValue::kAtLeast;
  KthLargest search = KthLargest(1);
  static constexpr auto fields = weft::fields(&CountRequest::what, &CountRequest::search);
};

/// Request for a step of bounding.
struct BoundRequest {
  int step = 1;
  BoundingLoop::BoundingStep kind = BoundingLoop::BoundingStep::kShrink;
  std::int64_t threshold = 0;  ///< Used by shrinking and growing.
  std::uint64_t exchange = 0;  ///< Number of the exchange that spreads the decisions.
  static constexpr auto fields = weft::fields(&BoundRequest::step, &BoundRequest::kind,
                                              &BoundRequest::threshold, &BoundRequest::exchange);
};

/// First half of a round: sends points to their partitions.
struct ShuffleRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;  ///< Counts from 1.
  std::uint32_t partitions = 1;
  static constexpr auto fields =
      weft::fields(&ShuffleRequest::exchange, &ShuffleRequest::round, &ShuffleRequest::partitions);
};

struct PartitionSize {
  std::uint32_t partition = 0;
  std::uint64_t points = 0;
  std::uint64_t edges = 0;  ///< Directed edges, including those to points that are not in the
                            ///< round.
  static constexpr auto fields =
      weft::fields(&PartitionSize::partition, &PartitionSize::points, &PartitionSize::edges);
};

/// Second half of a round: partitions choose, and owners learn which points stay.
struct ChooseRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;
  bool last = false;                  ///< True to store gains.
  std::vector<std::uint64_t> quotas;  ///< Quota of each partition.
  static constexpr auto fields = weft::fields(&ChooseRequest::exchange, &ChooseRequest::round,
                                              &ChooseRequest::last, &ChooseRequest::quotas);
};

struct ScoreRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;     ///< Number of the last round.
  std::int64_t draw_from = 0;  ///< Minimum sample_key() of the random subset.
  static constexpr auto fields =
      weft::fields(&ScoreRequest::exchange, &ScoreRequest::round, &ScoreRequest::draw_from);
};

/// Score of a worker's points.
struct ScoreReport {
  std::uint64_t chosen = 0, drawn = 0;
  std::int64_t score = 0;         ///< Worker's summand of f of the chosen points.
  std::int64_t random_score = 0;  ///< Worker's summand of f of as many random points.
  static constexpr auto fields = weft::fields(&ScoreReport::chosen, &ScoreReport::drawn,
                                              &ScoreReport::score, &ScoreReport::random_score);
};

/// Chosen point, as the result files list it.
struct ResultPoint {
  PointId id = 0;
  std::uint16_t utility = 0;
  std::int64_t gain = 0;    ///< Gain when it was chosen. For an accepted point, its upper bound.
  std::uint32_t round = 0;  ///< Last round, in which greedy chose it. 0 if bounding accepted it.
  static constexpr auto fields = weft::fields(&ResultPoint::id, &ResultPoint::utility,
                                              &ResultPoint::gain, &ResultPoint::round);
};

/// Edge of a requested point.
struct PointNeighbour {
  PointId point = 0, neighbour = 0;
  std::uint16_t similarity = 0;  ///< Fraction of 65535.
  static constexpr auto fields =
      weft::fields(&PointNeighbour::point, &PointNeighbour::neighbour, &PointNeighbour::similarity);
};

/// Resources that a worker has used so far.
struct ResourceUsage {
  std::uint64_t peak_bytes = 0;                     ///< Resident memory (VmHWM).
  std::uint64_t read_bytes = 0, written_bytes = 0;  ///< Disk I/O counters.
  std::uint64_t sent_bytes = 0;                     ///< Bytes sent to other workers.
  std::uint64_t shard_reads = 0;                    ///< Reads of whole shards, except for bounding.
  std::uint64_t bounding_reads = 0;
  std::uint64_t records = 0;  ///< Records that bounding has sent.

  /// Returns the usage of this process, with `sent` bytes.
  static ResourceUsage of_process(std::uint64_t sent) {
    const DiskBytes disk = disk_bytes();
    return {peak_resident_bytes(), disk.read, disk.written, sent, 0, 0, 0};
  }
  static constexpr auto fields = weft::fields(
      &ResourceUsage::peak_bytes, &ResourceUsage::read_bytes, &ResourceUsage::written_bytes,
      &ResourceUsage::sent_bytes, &ResourceUsage::shard_reads, &ResourceUsage::bounding_reads,
      &ResourceUsage::records);
};

}  // namespace weft::apps
