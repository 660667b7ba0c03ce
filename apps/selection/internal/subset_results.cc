#include "apps/selection/internal/subset_results.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Results that fit into a message.
constexpr std::size_t kMostResults = 32 * 1024;
/// Record of a chosen point's edge for its other end: id u32, similarity u16.
constexpr std::size_t kScoredEdgeBytes = 6;

/// Chosen points of a shard with their gains, visited by ascending row.
class ResultRows final {
 public:
  ResultRows(const SelectionState& state, const SelectionSettings& settings, std::uint32_t shard,
             std::uint32_t round)
      : round_(round), chosen_(state.chosen_points(shard, round)) {
    if (settings.use_bounding) bounds_ = state.read_bounds(shard);
    gains_ = state.read_gains(shard, round);
    if (const std::size_t needed = num_gains(); gains_.size() < needed)
      throw_error(ErrorCode::kDataLoss,
                  "the saved gains of shard {} in round {} are {}, but {} points were chosen; they "
                  "belong to another run; start this run again",
                  shard, round, gains_.size(), needed);
  }
  std::size_t size() const { return chosen_.size(); }
  bool is_chosen(std::uint32_t row) const { return chosen_[row]; }
  /// Returns the result of the next chosen row. Call once for each, in ascending order.
  ResultPoint next_result(std::uint32_t row, const StoredPoint& point) {
    ResultPoint result{point.id, point.utility, 0, 0};
    if (is_accepted(row)) {
      result.gain = bounds_->at_most(row);
    } else {
      result.gain = gains_[next_gain_++];
      result.round = round_;
    }
    if (point.is_copy) result.gain += kCopyPenalty;
    return result;
  }

 private:
  /// Returns whether bounding, not a round, chose the row.
  bool is_accepted(std::size_t row) const {
    return bounds_ && bounds_->state_of(row) == PointState::kAccepted;
  }
  /// Returns the number of rows that the last round chose.
  std::size_t num_gains() const {
    std::size_t count = 0;
    for (std::size_t row = 0; row < chosen_.size(); ++row)
      count += chosen_[row] && !is_accepted(row) ? 1 : 0;
    return count;
  }

  const std::uint32_t round_;
  const std::vector<bool> chosen_;
  std::optional<PointBounds> bounds_;
  std::vector<std::int64_t> gains_;  ///< Gains of the points that the last round chose.
  std::size_t next_gain_ = 0;
};

/// Returns the edges to points of larger ids, so that each edge is visited once.
std::span<const Neighbour> larger_neighbours(const StoredPoint& point) {
  const auto larger = std::ranges::upper_bound(point.neighbours, point.id, {}, &Neighbour::id);
  return {larger, point.neighbours.end()};
}

}  // namespace

actors::task<ScoreReport> SubsetResults::score(ScoreRequest request) {
  const Objective objective = settings_.objective();
  ScoreReport report;
  PointShuffle edges(session_, {.number = request.exchange, .budget = settings_.exchange_budget},
                     "edges", kScoredEdgeBytes);
  for (const std::uint32_t shard : session_.shards())
    co_await score_shard(request, shard, report, edges);
  co_await edges.finish();
  for (const std::uint32_t shard : session_.shards()) {
    const std::vector<bool> chosen = state_.chosen_points(shard, request.round);
    const std::uint64_t first = session_.first_of(shard);
    edges.drain(shard, [&](ByteReader& reader) {
      const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
      if (chosen.at(row)) report.score -= objective.redundancy_loss(reader.read<std::uint16_t>());
    });
  }
  co_return report;
}

actors::task<> SubsetResults::score_shard(const ScoreRequest& request, std::uint32_t shard,
                                          ScoreReport& report, PointShuffle& edges) {
  const Objective objective = settings_.objective();
  const auto is_drawn = [&](PointId id) {
    return sample_key(id, settings_.seed) >= request.draw_from;
  };
  ResultRows rows(state_, settings_, shard, request.round);
  SpillWriter results(state_.results_file(shard));
  ByteWriter record;
  PointShardReader reader = store_.read(shard);
  const auto first = static_cast<PointId>(session_.first_of(shard));
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const bool drawn = is_drawn(first + row), chosen = rows.is_chosen(row);
    if (!drawn && !chosen) {
      reader.skip();
      continue;
    }
    const StoredPoint* const point = reader.next();
    if (drawn) {
      ++report.drawn;
      report.random_score += objective.gain_alone(point->utility);
      for (const Neighbour& neighbour : larger_neighbours(*point))
        if (is_drawn(neighbour.id))
          report.random_score -= objective.redundancy_loss(neighbour.similarity);
    }
    if (!chosen) continue;
    ++report.chosen;
    report.score += objective.gain_alone(point->utility);
    results.append(encode(rows.next_result(row, *point)));
    for (const Neighbour& neighbour : larger_neighbours(*point)) {
      record.clear();
      record.write(neighbour.id);
      record.write(neighbour.similarity);
      while (!edges.append(record)) co_await edges.flush();
    }
  }
  ++session_.counters().shard_reads;
  results.commit();
}

std::vector<ResultPoint> SubsetResults::chosen_points(std::uint32_t shard,
                                                      std::uint64_t first) const {
  SpillReader reader(state_.results_file(shard));
  std::vector<ResultPoint> points;
  std::uint64_t at = 0;
  for (auto block = reader.next(); !block.empty() && points.size() < kMostResults;
       block = reader.next()) {
    ByteReader records(block);
    while (records.remaining() > 0) {
      const ResultPoint point = codec<ResultPoint>::read(records);
      if (at++ >= first && points.size() < kMostResults) points.push_back(point);
    }
  }
  return points;
}

std::vector<std::string> SubsetResults::digests() const {
  std::vector<std::string> digests;
  for (const std::uint32_t shard : session_.shards()) {
    SpillReader reader(state_.results_file(shard));
    ByteWriter ids;
    for (auto block = reader.next(); !block.empty(); block = reader.next()) {
      ByteReader records(block);
      while (records.remaining() > 0) ids.write(codec<ResultPoint>::read(records).id);
    }
    digests.push_back(sha256(ids.bytes()));
  }
  return digests;
}

std::vector<PointNeighbour> SubsetResults::neighbours_of(const std::vector<PointId>& points) const {
  std::map<std::uint32_t, std::set<PointId>> by_shard;
  for (const PointId id : points)
    if (const std::uint32_t shard = session_.layout().shard_of(id); session_.owns(shard))
      by_shard[shard].insert(id);
  std::vector<PointNeighbour> neighbours;
  for (const auto& [shard, ids] : by_shard) {
    PointShardReader reader = store_.read(shard);
    while (const StoredPoint* point = reader.next()) {
      if (!ids.contains(point->id)) continue;
      for (const Neighbour& neighbour : point->neighbours)
        neighbours.push_back({point->id, neighbour.id, neighbour.similarity});
    }
  }
  return neighbours;
}

}  // namespace weft::apps
