// SelectionWorker's bounding of its points, one shard at a time.
#include <algorithm>
#include <utility>

#include "apps/selection/selection_worker.h"
#include "apps/selection/shard_spills.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

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

/// Prepends the step at which the bounds were saved.
std::vector<std::byte> with_step(int step, std::vector<std::byte> state) {
  ByteWriter writer(sizeof(std::int32_t) + state.size());
  writer.write<std::int32_t>(step);
  writer.write_bytes(state);
  return std::move(writer).take();
}

}  // namespace

PointBounds SelectionWorker::bounds_of(std::uint32_t shard) const {
  const std::vector<std::byte> bytes = read_spilled(file("bounds", 0, shard));
  if (bytes.size() < sizeof(std::int32_t))
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: it has no state of bounds; start this run again",
                file("bounds", 0, shard).string());
  return {settings_.objective(), std::span(bytes).subspan(sizeof(std::int32_t))};
}

std::vector<std::uint32_t> SelectionWorker::read_decisions(std::uint32_t shard, int step) const {
  const auto path = file("decided", static_cast<std::uint64_t>(step), shard);
  if (!std::filesystem::exists(path)) return {};  // no decisions in this step
  const std::vector<std::byte> bytes = read_spilled(path);
  std::vector<std::uint32_t> rows(bytes.size() / 4);
  ByteReader reader(bytes);
  for (std::uint32_t& row : rows) row = reader.read<std::uint32_t>();
  return rows;
}

void SelectionWorker::initialise_bounds() {
  const Objective objective = settings_.objective();
  const EdgeSample sample{settings_.sample, settings_.seed, settings_.resample_edges ? 1U : 0U};
  for (const std::uint32_t shard : shards_) {
    std::vector<std::int64_t> gains;
    gains.reserve(rows_of(shard));
    {
      PointShardReader reader = store_->read(shard);
      while (const StoredPoint* point = reader.next()) gains.push_back(gain_of(*point, objective));
    }
    PointBounds bounds(objective, std::move(gains));
    PointShardReader reader = store_->read(shard);
    for (std::uint32_t row = 0; const StoredPoint* point = reader.next(); ++row) {
      for (const Neighbour& neighbour : point->neighbours)
        if (sample.contains(point->id, neighbour.id)) bounds.add_open(row, neighbour.similarity);
    }
    bounding_reads_ += 2;
    write_state(file("bounds", 0, shard), with_step(0, bounds.state()));
  }
}

std::vector<std::uint64_t> SelectionWorker::count(const CountRequest& request) {
  KthLargest::Counts counts(KthLargest::kBins, 0);
  for (const std::uint32_t shard : shards_) {
    if (request.what == RankedValue::kDraw) {
      for (std::uint64_t id = layout().first_of(shard); id < layout().first_of(shard + 1); ++id)
        if (const auto bin =
                request.search.bin_of(sample_key(static_cast<PointId>(id), settings_.seed)))
          ++counts[*bin];
      continue;
    }
    const PointBounds bounds = bounds_of(shard);
    for (std::uint32_t row = 0; row < bounds.size(); ++row) {
      if (bounds.state_of(row) != PointState::kOpen) continue;
      const std::int64_t number =
          request.what == RankedValue::kAtLeast ? bounds.at_least(row) : bounds.at_most(row);
      if (const auto bin = request.search.bin_of(number)) ++counts[*bin];
    }
  }
  return counts;
}

std::uint64_t SelectionWorker::decide(const BoundRequest& request) {
  std::uint64_t decided = 0;
  for (const std::uint32_t shard : shards_) {
    const std::vector<std::byte> bytes = read_spilled(file("bounds", 0, shard));
    if (ByteReader(bytes).read<std::int32_t>() >= request.step) {
      // Done before a death. If a shard had no decisions and no updates, its bounds keep their old
      // step, and deciding again decides nothing.
      decided += read_decisions(shard, request.step).size();
      continue;
    }
    PointBounds bounds(settings_.objective(), std::span(bytes).subspan(sizeof(std::int32_t)));
    std::vector<std::uint32_t> rows;
    switch (request.kind) {
      case BoundingLoop::Step::kShrink: rows = bounds.discard_below(request.threshold); break;
      case BoundingLoop::Step::kGrow: rows = bounds.accept_above(request.threshold); break;
      case BoundingLoop::Step::kAcceptRest: rows = bounds.decide_all(PointState::kAccepted); break;
      default: rows = bounds.decide_all(PointState::kDiscarded); break;
    }
    if (!rows.empty())
      write_state(file("decided", static_cast<std::uint64_t>(request.step), shard),
                  std::as_bytes(std::span(rows)));
    decided += rows.size();
  }
  return decided;
}

actors::task<std::uint64_t> SelectionWorker::propagate_decisions(BoundRequest request) {
  const PointState new_state =
      request.kind == BoundingLoop::Step::kGrow || request.kind == BoundingLoop::Step::kAcceptRest
          ? PointState::kAccepted
          : PointState::kDiscarded;
  const EdgeSample sample{settings_.sample, settings_.seed};
  // The next step's sample, if it is drawn afresh.
  const EdgeSample next{settings_.sample, settings_.seed,
                        static_cast<std::uint64_t>(request.step) + 1};
  ShardSpills arrived(spill_, "fates", layout(), kUpdateBytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  std::uint64_t records = 0;
  ByteWriter record;
  for (const std::uint32_t shard : shards_) {
    const std::vector<std::uint32_t> rows = read_decisions(shard, request.step);
    std::vector<bool> is_decided(rows_of(shard));
    for (const std::uint32_t row : rows) is_decided[row] = true;
    if (rows.empty() && !settings_.resample_edges) continue;
    std::vector<bool> is_open;
    if (settings_.resample_edges) {
      const PointBounds bounds = bounds_of(shard);
      is_open.resize(bounds.size());
      for (std::uint32_t row = 0; row < bounds.size(); ++row)
        is_open[row] = bounds.state_of(row) == PointState::kOpen && !is_decided[row];
    }
    PointShardReader reader = store_->read(shard);
    for (std::uint32_t row = 0; row < is_decided.size(); ++row) {
      const bool decided = is_decided[row];
      if (!decided && (is_open.empty() || !is_open[row])) {
        reader.skip();
        continue;
      }
      const StoredPoint* const point = reader.next();
      for (const Neighbour& neighbour : point->neighbours) {
        NeighbourUpdate update = NeighbourUpdate::kOpen;
        if (decided) {
          // Fresh samples reset the counts of open neighbours anyway.
          const bool counted =
              !settings_.resample_edges && sample.contains(neighbour.id, point->id);
          if (new_state == PointState::kDiscarded && !counted) continue;
          if (new_state == PointState::kDiscarded) update = NeighbourUpdate::kNoMoreOpen;
          else update = counted ? NeighbourUpdate::kOpenAccepted : NeighbourUpdate::kAccepted;
        } else if (!next.contains(neighbour.id, point->id)) {
          continue;
        }
        record.clear();
        record.write(neighbour.id);
        record.write(neighbour.similarity);
        record.write(update);
        const std::uint32_t rank = owner_of_shard(layout().shard_of(neighbour.id));
        while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
        ++records;
      }
    }
    ++bounding_reads_;
  }
  co_await exchange.finish();
  arrived.commit();
  for (const std::uint32_t shard : shards_) {
    const std::vector<std::uint32_t> rows = read_decisions(shard, request.step);
    if (rows.empty() && !arrived.has(shard) && !settings_.resample_edges) continue;
    const auto path = file("bounds", 0, shard);
    const std::vector<std::byte> bytes = read_spilled(path);
    if (ByteReader(bytes).read<std::int32_t>() >= request.step) continue;  // done before a death
    PointBounds bounds(settings_.objective(), std::span(bytes).subspan(sizeof(std::int32_t)));
    bounds.decide_rows(rows, new_state);
    if (settings_.resample_edges) bounds.clear_open();
    const std::uint64_t first = layout().first_of(shard);
    arrived.drain(shard, [&](ByteReader& reader) {
      const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
      const auto similarity = reader.read<std::uint16_t>();
      const auto update = reader.read<NeighbourUpdate>();
      if (update == NeighbourUpdate::kOpen) return bounds.add_open(row, similarity);
      bounds.neighbour_decided(
          row, similarity,
          update == NeighbourUpdate::kNoMoreOpen ? PointState::kDiscarded : PointState::kAccepted,
          update != NeighbourUpdate::kAccepted);
    });
    write_state(path, with_step(request.step, bounds.state()));
  }
  records_ += records;
  co_return records;
}

}  // namespace weft::apps
