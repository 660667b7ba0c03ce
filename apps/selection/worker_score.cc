// SelectionWorker's scores of the chosen points and of as many random points, over all workers
// (Böther et al., section 4.4), and the result files.
#include <algorithm>
#include <utility>

#include "apps/selection/selection_worker.h"
#include "apps/selection/shard_spills.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Record of a chosen point's edge for its other end: id u32, similarity u16.
constexpr std::size_t kEdgeBytes = 6;

}  // namespace

actors::task<ScoreReport> SelectionWorker::score(ScoreRequest request) {
  const Objective objective = settings_.objective();
  const auto is_drawn = [&](PointId id) {
    return sample_key(id, settings_.seed) >= request.draw_from;
  };
  ScoreReport report;
  ShardSpills arrived(spill_, "edges", layout(), kEdgeBytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  ByteWriter record;
  for (const std::uint32_t shard : shards_) {
    const std::vector<bool> chosen = chosen_of(shard, request.round);
    std::optional<PointBounds> bounds;
    if (settings_.use_bounding) bounds = bounds_of(shard);
    const std::vector<std::byte> gain_bytes =
        request.round > 0 ? read_spilled(file("gains", request.round, shard))
                          : std::vector<std::byte>();
    ByteReader gains(gain_bytes);
    SpillWriter results(file("results", 0, shard));
    PointShardReader reader = store_->read(shard);
    const auto first = static_cast<PointId>(layout().first_of(shard));
    for (std::uint32_t row = 0; row < chosen.size(); ++row) {
      const bool drawn = is_drawn(first + row);
      if (!drawn && !chosen[row]) {
        reader.skip();
        continue;
      }
      const StoredPoint* const point = reader.next();
      if (drawn) {
        ++report.drawn;
        report.random_score += objective.gain_alone(point->utility);
      }
      if (chosen[row]) {
        ++report.chosen;
        report.score += objective.gain_alone(point->utility);
        ResultPoint result{point->id, point->utility, 0, 0};
        if (bounds && bounds->state_of(row) == PointState::kAccepted) {
          result.gain = bounds->at_most(row);
        } else {
          result.gain = gains.read<std::int64_t>();
          result.round = request.round;
        }
        if (point->is_copy) result.gain += kCopyPenalty;
        results.append(encode(result));
      }
      // Visits each edge once, from its smaller id.
      const auto larger =
          std::ranges::upper_bound(point->neighbours, point->id, {}, &Neighbour::id);
      for (const Neighbour& neighbour : std::span(larger, point->neighbours.end())) {
        if (drawn && is_drawn(neighbour.id))
          report.random_score -= objective.redundancy_loss(neighbour.similarity);
        if (!chosen[row]) continue;
        record.clear();
        record.write(neighbour.id);
        record.write(neighbour.similarity);
        const std::uint32_t rank = owner_of_shard(layout().shard_of(neighbour.id));
        while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
      }
    }
    ++shard_reads_;
    results.commit();
  }
  co_await exchange.finish();
  arrived.commit();
  for (const std::uint32_t shard : shards_) {
    const std::vector<bool> chosen = chosen_of(shard, request.round);
    const std::uint64_t first = layout().first_of(shard);
    arrived.drain(shard, [&](ByteReader& reader) {
      const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
      if (chosen.at(row)) report.score -= objective.redundancy_loss(reader.read<std::uint16_t>());
    });
  }
  co_return report;
}

std::vector<bool> SelectionWorker::chosen_of(std::uint32_t shard, std::uint32_t round) const {
  std::vector<bool> chosen;
  if (round > 0) chosen = remaining_points(shard, round);
  else chosen.resize(rows_of(shard));
  if (!settings_.use_bounding) return chosen;
  const PointBounds bounds = bounds_of(shard);
  for (std::uint32_t row = 0; row < bounds.size(); ++row)
    if (bounds.state_of(row) == PointState::kAccepted) chosen[row] = true;
  return chosen;
}

}  // namespace weft::apps
