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

/// What all workers of a selection are told at its beginning. A value.
struct SelectionSettings {
  std::string points;  ///< Folder of the ground set's store, as each host sees it.
  /// Folder for what must outlive a death, of this run alone; by the same name on each host.
  std::string scratch;
  bool anew = true;                          ///< What lies there is of a run before this one.
  std::uint64_t count = 0;                   ///< To choose.
  std::int64_t utility = 1, similarity = 1;  ///< See Objective.
  std::uint64_t seed = 1;
  std::uint32_t sample = 1000;  ///< See EdgeSample::thousandths.
  bool fresh = false;           ///< Edges are sampled anew in every step.
  bool bounded = false;         ///< Bounds are kept, and rounds begin with what they leave open.
  std::uint64_t exchange_budget = std::uint64_t{16} << 20;  ///< Bytes; see ExchangeOptions.
  std::uint64_t spill_block = std::uint64_t{1} << 20;       ///< Of each partition's file.

  Objective objective() const { return {utility, similarity}; }
  static constexpr auto fields = weft::fields(
      &SelectionSettings::points, &SelectionSettings::scratch, &SelectionSettings::anew,
      &SelectionSettings::count, &SelectionSettings::utility, &SelectionSettings::similarity,
      &SelectionSettings::seed, &SelectionSettings::sample, &SelectionSettings::fresh,
      &SelectionSettings::bounded, &SelectionSettings::exchange_budget,
      &SelectionSettings::spill_block);
};

/// What a worker knows of the ground set when it has opened it.
struct GroundSet {
  std::uint64_t points = 0;
  std::uint32_t shards = 0;
  std::uint64_t directed_edges = 0;
  static constexpr auto fields =
      weft::fields(&GroundSet::points, &GroundSet::shards, &GroundSet::directed_edges);
};

/// Which numbers of a worker's open points are counted for a k-th largest.
enum class Ranked : std::uint8_t { kAtLeast, kAtMost, kDraw };

struct CountRequest {
  Ranked what = Ranked::kAtLeast;
  KthLargest search = KthLargest(1);
  static constexpr auto fields = weft::fields(&CountRequest::what, &CountRequest::search);
};

/// A step of bounding.
struct BoundRequest {
  int step = 1;
  BoundingLoop::Step kind = BoundingLoop::Step::kShrink;
  std::int64_t threshold = 0;  ///< Of shrinking and growing.
  std::uint64_t exchange = 0;  ///< Number of the exchange that spreads what was decided.
  static constexpr auto fields = weft::fields(&BoundRequest::step, &BoundRequest::kind,
                                              &BoundRequest::threshold, &BoundRequest::exchange);
};

/// The first half of a round: points go to their partitions.
struct DealRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;  ///< From 1.
  std::uint32_t partitions = 1;
  static constexpr auto fields =
      weft::fields(&DealRequest::exchange, &DealRequest::round, &DealRequest::partitions);
};

struct PartitionSize {
  std::uint32_t partition = 0;
  std::uint64_t points = 0;
  std::uint64_t edges = 0;  ///< Directed, before those to points that are out are dropped.
  static constexpr auto fields =
      weft::fields(&PartitionSize::partition, &PartitionSize::points, &PartitionSize::edges);
};

/// The second half: partitions choose, and owners learn what stays.
struct ChooseRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;
  bool last = false;                  ///< Gains are kept.
  std::vector<std::uint64_t> quotas;  ///< By partition.
  static constexpr auto fields = weft::fields(&ChooseRequest::exchange, &ChooseRequest::round,
                                              &ChooseRequest::last, &ChooseRequest::quotas);
};

struct ScoreRequest {
  std::uint64_t exchange = 0;
  std::uint32_t round = 1;     ///< The last one.
  std::int64_t draw_from = 0;  ///< Of the random subset: points whose draw is not below it.
  static constexpr auto fields =
      weft::fields(&ScoreRequest::exchange, &ScoreRequest::round, &ScoreRequest::draw_from);
};

/// Of a worker's points.
struct ScoreReport {
  std::uint64_t chosen = 0, drawn = 0;
  std::int64_t score = 0;         ///< f of the chosen: these parts add up.
  std::int64_t random_score = 0;  ///< f of as many points drawn at random.
  static constexpr auto fields = weft::fields(&ScoreReport::chosen, &ScoreReport::drawn,
                                              &ScoreReport::score, &ScoreReport::random_score);
};

/// A chosen point, as results have it.
struct ResultPoint {
  PointId id = 0;
  std::uint16_t utility = 0;
  std::int64_t gain = 0;    ///< When it was chosen; of an accepted one, what it adds at most.
  std::uint32_t round = 0;  ///< In which greedy chose it last; 0: bounding accepted it.
  static constexpr auto fields = weft::fields(&ResultPoint::id, &ResultPoint::utility,
                                              &ResultPoint::gain, &ResultPoint::round);
};

/// An edge of a point that somebody has asked for.
struct PointNeighbour {
  PointId point = 0, neighbour = 0;
  std::uint16_t similarity = 0;  ///< Fraction of 65535.
  static constexpr auto fields =
      weft::fields(&PointNeighbour::point, &PointNeighbour::neighbour, &PointNeighbour::similarity);
};

/// What a worker has used so far.
struct WorkerUse {
  std::uint64_t peak_bytes = 0;                     ///< VmHWM.
  std::uint64_t read_bytes = 0, written_bytes = 0;  ///< Of disks (io counters).
  std::uint64_t sent_bytes = 0;                     ///< To other workers.
  std::uint64_t shard_reads = 0;                    ///< Whole shards, bounding's apart.
  std::uint64_t bounding_reads = 0;
  std::uint64_t records = 0;  ///< That bounding has spread.

  /// Of this process, with what it has sent.
  static WorkerUse of_process(std::uint64_t sent) {
    const DiskBytes disk = disk_bytes();
    return {peak_resident_bytes(), disk.read, disk.written, sent, 0, 0, 0};
  }
  static constexpr auto fields =
      weft::fields(&WorkerUse::peak_bytes, &WorkerUse::read_bytes, &WorkerUse::written_bytes,
                   &WorkerUse::sent_bytes, &WorkerUse::shard_reads, &WorkerUse::bounding_reads,
                   &WorkerUse::records);
};

}  // namespace weft::apps
