#include "apps/selection/internal/shard_bounding.h"

#include <optional>
#include <utility>

#include "core/codec/bytes.h"

namespace weft::apps {
namespace {

/// Record of a neighbour's new state, sent to a point: id u32, similarity u16, update u8.
constexpr std::size_t kUpdateBytes = 7;
enum class NeighbourUpdate : std::uint8_t {
  kAccepted,      ///< Accepted. Was not counted as open.
  kNoMoreOpen,    ///< Discarded. Was counted as open.
  kOpenAccepted,  ///< Accepted. Was counted as open.
  kOpen,          ///< Open, and in the sample from now on.
};

/// Returns the state of the points that a step decides.
PointState decided_state(BoundingLoop::BoundingStep step) {
  return step == BoundingLoop::BoundingStep::kGrow ||
                 step == BoundingLoop::BoundingStep::kAcceptRest
             ? PointState::kAccepted
             : PointState::kDiscarded;
}

/// Updates that a step causes at the neighbours of points.
struct StepUpdates {
  PointState new_state;  ///< State of the decided points.
  bool resample;         ///< True if the next step samples edges afresh, in `next`.
  EdgeSample sample, next;

  StepUpdates(const BoundRequest& request, const SelectionSettings& settings)
      : new_state(decided_state(request.kind)),
        resample(settings.resample_edges),
        sample{settings.sample, settings.seed},
        next{settings.sample, settings.seed, static_cast<std::uint64_t>(request.step) + 1} {}

  /// Returns the update for a neighbour of `point`, or nothing if its bounds stay. A point that is
  /// not decided is open.
  std::optional<NeighbourUpdate> update_for(PointId neighbour, PointId point, bool decided) const {
    if (!decided) {
      if (!next.contains(neighbour, point)) return std::nullopt;
      return NeighbourUpdate::kOpen;
    }
    // Fresh samples reset the counts of open neighbours anyway.
    const bool counted = !resample && sample.contains(neighbour, point);
    if (new_state == PointState::kAccepted)
      return counted ? NeighbourUpdate::kOpenAccepted : NeighbourUpdate::kAccepted;
    if (!counted) return std::nullopt;
    return NeighbourUpdate::kNoMoreOpen;
  }
};

void apply(PointBounds& bounds, std::uint32_t row, std::uint16_t similarity,
           NeighbourUpdate update) {
  if (update == NeighbourUpdate::kOpen) return bounds.add_open(row, similarity);
  bounds.neighbour_decided(
      row, similarity,
      update == NeighbourUpdate::kNoMoreOpen ? PointState::kDiscarded : PointState::kAccepted,
      update != NeighbourUpdate::kAccepted);
}

}  // namespace

void ShardBounding::initialise() {
  const Objective objective = settings_.objective();
  const EdgeSample sample{settings_.sample, settings_.seed, settings_.resample_edges ? 1U : 0U};
  for (const std::uint32_t shard : session_.shards()) {
    std::vector<std::int64_t> gains;
    gains.reserve(session_.rows_of(shard));
    {
      PointShardReader reader = store_.read(shard);
      while (const StoredPoint* point = reader.next()) gains.push_back(gain_of(*point, objective));
    }
    PointBounds bounds(objective, std::move(gains));
    PointShardReader reader = store_.read(shard);
    for (std::uint32_t row = 0; const StoredPoint* point = reader.next(); ++row) {
      for (const Neighbour& neighbour : point->neighbours)
        if (sample.contains(point->id, neighbour.id)) bounds.add_open(row, neighbour.similarity);
    }
    session_.counters().bounding_reads += 2;
    state_.write_bounds(shard, 0, bounds);
  }
}

std::vector<std::uint64_t> ShardBounding::count(const CountRequest& request) const {
  KthLargest::Counts counts(KthLargest::kBins, 0);
  const auto add = [&](std::int64_t number) {
    if (const auto bin = request.search.bin_of(number)) ++counts[*bin];
  };
  for (const std::uint32_t shard : session_.shards()) {
    if (request.what == RankedValue::kDraw) {
      for (std::uint64_t id = session_.first_of(shard); id < session_.first_of(shard + 1); ++id)
        add(sample_key(static_cast<PointId>(id), settings_.seed));
      continue;
    }
    const PointBounds bounds = state_.read_bounds(shard);
    for (std::uint32_t row = 0; row < bounds.size(); ++row) {
      if (bounds.state_of(row) != PointState::kOpen) continue;
      add(request.what == RankedValue::kAtLeast ? bounds.at_least(row) : bounds.at_most(row));
    }
  }
  return counts;
}

std::uint64_t ShardBounding::decide(const BoundRequest& request) const {
  std::uint64_t decided = 0;
  for (const std::uint32_t shard : session_.shards()) {
    auto [step, bounds] = state_.read_saved_bounds(shard);
    if (step >= request.step) {
      // Done before a death. If a shard had no decisions and no updates, its bounds keep their old
      // step, and deciding again decides nothing.
      decided += state_.read_decisions(shard, request.step).size();
      continue;
    }
    std::vector<std::uint32_t> rows;
    switch (request.kind) {
      case BoundingLoop::BoundingStep::kShrink:
        rows = bounds.discard_below(request.threshold);
        break;
      case BoundingLoop::BoundingStep::kGrow: rows = bounds.accept_above(request.threshold); break;
      default: rows = bounds.decide_all(decided_state(request.kind)); break;
    }
    state_.write_decisions(shard, request.step, rows);
    decided += rows.size();
  }
  return decided;
}

actors::task<std::uint64_t> ShardBounding::propagate(BoundRequest request) {
  PointShuffle updates(session_, {.number = request.exchange, .budget = settings_.exchange_budget},
                       "fates", kUpdateBytes);
  std::uint64_t records = 0;
  for (const std::uint32_t shard : session_.shards()) {
    const std::uint64_t sent = co_await send_updates(request, shard, updates);
    records += sent;
  }
  co_await updates.finish();
  for (const std::uint32_t shard : session_.shards()) apply_updates(request, shard, updates);
  session_.counters().records += records;
  co_return records;
}

std::vector<bool> ShardBounding::resampled_points(std::uint32_t shard,
                                                  const std::vector<bool>& decided) const {
  std::vector<bool> open(decided.size());
  if (!settings_.resample_edges) return open;
  const PointBounds bounds = state_.read_bounds(shard);
  for (std::uint32_t row = 0; row < bounds.size(); ++row)
    open[row] = bounds.state_of(row) == PointState::kOpen && !decided[row];
  return open;
}

actors::task<std::uint64_t> ShardBounding::send_updates(const BoundRequest& request,
                                                        std::uint32_t shard,
                                                        PointShuffle& updates) {
  const std::vector<std::uint32_t> rows = state_.read_decisions(shard, request.step);
  if (rows.empty() && !settings_.resample_edges) co_return 0;
  std::vector<bool> decided(session_.rows_of(shard));
  for (const std::uint32_t row : rows) decided[row] = true;
  const std::vector<bool> resampled = resampled_points(shard, decided);
  const StepUpdates of_step(request, settings_);
  std::uint64_t records = 0;
  ByteWriter record;
  PointShardReader reader = store_.read(shard);
  for (std::uint32_t row = 0; row < decided.size(); ++row) {
    if (!decided[row] && !resampled[row]) {
      reader.skip();
      continue;
    }
    const StoredPoint* const point = reader.next();
    for (const Neighbour& neighbour : point->neighbours) {
      const auto update = of_step.update_for(neighbour.id, point->id, decided[row]);
      if (!update) continue;
      record.clear();
      record.write(neighbour.id);
      record.write(neighbour.similarity);
      record.write(*update);
      while (!updates.append(record)) co_await updates.flush();
      ++records;
    }
  }
  ++session_.counters().bounding_reads;
  co_return records;
}

void ShardBounding::apply_updates(const BoundRequest& request, std::uint32_t shard,
                                  PointShuffle& updates) const {
  const std::vector<std::uint32_t> rows = state_.read_decisions(shard, request.step);
  if (rows.empty() && !updates.has(shard) && !settings_.resample_edges) return;
  auto [step, bounds] = state_.read_saved_bounds(shard);
  if (step >= request.step) return;  // done before a death
  bounds.decide_rows(rows, decided_state(request.kind));
  if (settings_.resample_edges) bounds.clear_open();
  const std::uint64_t first = session_.first_of(shard);
  updates.drain(shard, [&, &of_shard = bounds](ByteReader& reader) {
    const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
    const auto similarity = reader.read<std::uint16_t>();
    apply(of_shard, row, similarity, reader.read<NeighbourUpdate>());
  });
  state_.write_bounds(shard, request.step, bounds);
}

}  // namespace weft::apps
