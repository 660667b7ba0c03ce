// Copies: points whose vectors equal those of other points, number by number. A copy is not
// searched, and is a neighbour of equal points only. Otherwise, the k nearest neighbours of a point
// with more than k copies would all be copies, and the search library would find all of them
// equally near.
//
// Equal points are ordered by utility, then by PointRank's hash, then by id. The first one is
// searched. Each other one has one edge, of similarity 1, to an equal point before it. These edges
// form a tree in which each point has at most kBranches children.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <tuple>

#include "apps/selection/graph_worker.h"
#include "apps/selection/shard_spills.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

constexpr std::size_t kBranches = 8;
constexpr std::uint64_t kHashedRows = 4096;  // at a time

/// Record of a vector for the rank that compares it: a number below that of points, drawn by the
/// hash, u32; the first half of the vector's SHA-256; id u32; utility f32.
constexpr std::size_t kHashDigits = 32, kHashedBytes = 4 + kHashDigits + 4 + 4;

struct HashedPoint {
  std::array<std::byte, kHashDigits> hash{};
  float utility = 0;
  std::uint64_t tie = 0;
  PointId id = 0;
  friend bool operator<(const HashedPoint& a, const HashedPoint& b) {
    return std::tie(a.hash, b.utility, a.tie, a.id) < std::tie(b.hash, a.utility, b.tie, b.id);
  }
};

}  // namespace

actors::task<std::uint64_t> GraphWorker::find_copies(std::uint64_t exchange_number) {
  copies_.reset();
  ShardSpills arrived(spill_, "hashes", layout_, kHashedBytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(exchange_number),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  ByteWriter record;
  for (const std::uint32_t shard : shards_) {
    for (std::uint64_t first = first_of(shard); first < first_of(shard + 1); first += kHashedRows) {
      VectorBlock rows = read_vectors(first, std::min(first + kHashedRows, first_of(shard + 1)));
      for (float& value : rows.values) value += 0.0F;  // -0 equals 0
      std::vector<float> utilities(rows.size());
      if (utilities_) utilities_->read(first, utilities);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        const std::string digest = sha256(std::as_bytes(rows.view().vectors[row]));
        const auto drawn =
            static_cast<PointId>(fnv1a(digest.data(), digest.size()) % layout_.points);
        record.clear();
        record.write(drawn);
        record.write_bytes(std::as_bytes(std::span(digest).first(kHashDigits)));
        record.write(rows.ids[row]);
        record.write(utilities[row]);
        const std::uint32_t rank = owner_of(drawn);
        while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
      }
    }
  }
  co_await exchange.finish();
  arrived.commit();
  ByteWriter pairs;
  std::uint64_t copies = 0;
  std::vector<HashedPoint> points;
  for (const std::uint32_t shard : shards_) {
    points.clear();
    arrived.drain(shard, [&](ByteReader& reader) {
      reader.read<PointId>();
      HashedPoint point;
      std::ranges::copy(reader.read_bytes(kHashDigits), point.hash.begin());
      point.id = reader.read<PointId>();
      point.utility = reader.read<float>();
      point.tie = point_hash(point.id, settings_.seed, 0);
      points.push_back(point);
    });
    std::ranges::sort(points, std::less());
    std::size_t first = 0;  // start of a run of equal points
    for (std::size_t i = 1; i < points.size(); ++i) {
      if (points[i].hash != points[first].hash) {
        first = i;
        continue;
      }
      pairs.write(points[i].id);
      pairs.write(points[first + (i - first - 1) / kBranches].id);
      ++copies;
    }
  }
  write_spilled(state_ / fmt::format("found-copies-{:05}", port_.rank()), pairs.bytes(),
                SpillWriter::Durability::kProcess);
  co_return copies;
}

actors::task<> GraphWorker::share_copies(std::uint64_t exchange_number) {
  std::vector<std::byte> arrived;
  mesh::ActorExchange exchange(
      port_, this->exchange(exchange_number), [&](const transfer::ReceivedBlock& block) {
        arrived.insert(arrived.end(), block.bytes().begin(), block.bytes().end());
      });
  const std::vector<std::byte> own =
      read_spilled(state_ / fmt::format("found-copies-{:05}", port_.rank()));
  constexpr std::size_t kPairBytes = 2 * sizeof(PointId);
  for (std::size_t at = 0; at < own.size(); at += kPairBytes) {
    const auto pair = std::span(own).subspan(at, kPairBytes);
    for (std::uint32_t rank = 0; rank < port_.num_ranks(); ++rank)
      while (!exchange.append(rank, pair)) co_await exchange.flush(rank);
  }
  co_await exchange.finish();
  write_spilled(state_ / fmt::format("copies-{:05}", port_.rank()), arrived,
                SpillWriter::Durability::kProcess);
  copies_.reset();
}

const std::vector<GraphWorker::CopyOf>& GraphWorker::known_copies() {
  if (copies_) return *copies_;
  const std::vector<std::byte> bytes =
      read_spilled(state_ / fmt::format("copies-{:05}", port_.rank()));
  ByteReader reader(bytes);
  copies_.emplace();
  is_copy_.assign(layout_.points, false);
  while (reader.remaining() > 0) {
    const auto copy = reader.read<PointId>();
    copies_->push_back({copy, reader.read<PointId>()});
    is_copy_.at(copy) = true;
  }
  std::ranges::sort(*copies_);
  return *copies_;
}

bool GraphWorker::is_copy(PointId id) { return !known_copies().empty() && is_copy_[id]; }

VectorBlock GraphWorker::read_distinct(std::uint64_t first, std::uint64_t past) {
  VectorBlock block = read_vectors(first, past);
  std::size_t kept = 0;
  for (std::size_t row = 0; row < block.size(); ++row) {
    if (is_copy(block.ids[row])) continue;
    if (kept < row) {
      block.ids[kept] = block.ids[row];
      std::memcpy(&block.values[kept * dimensions_], &block.values[row * dimensions_],
                  dimensions_ * sizeof(float));
    }
    ++kept;
  }
  block.ids.resize(kept);
  block.values.resize(kept * dimensions_);
  return block;
}

void GraphWorker::link_copies(std::uint32_t shard, NeighbourLists& lists) {
  const std::vector<CopyOf>& copies = known_copies();
  const auto first = static_cast<PointId>(first_of(shard));
  for (auto at = std::ranges::lower_bound(copies, first, {}, &CopyOf::copy);
       at != copies.end() && at->copy < first_of(shard + 1); ++at)
    lists.at(at->copy - first) = {{at->of, fraction_of(1)}};
}

}  // namespace weft::apps
