#include "apps/selection/internal/point_copies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <tuple>

#include "apps/selection/internal/point_shuffle.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

constexpr std::size_t kBranches = 8;
constexpr std::uint64_t kHashedRows = 4096;  // at a time
constexpr std::size_t kPairBytes = 2 * sizeof(PointId);

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

void write_hashed(ByteWriter& record, std::span<const float> vector, std::uint64_t points,
                  PointId id, float utility) {
  const std::string digest = sha256(std::as_bytes(vector));
  record.clear();
  record.write(static_cast<PointId>(fnv1a(digest.data(), digest.size()) % points));
  record.write_bytes(std::as_bytes(std::span(digest).first(kHashDigits)));
  record.write(id);
  record.write(utility);
}

HashedPoint read_hashed(ByteReader& record, std::uint64_t seed) {
  record.read<PointId>();  // drawn by the hash
  HashedPoint point;
  std::ranges::copy(record.read_bytes(kHashDigits), point.hash.begin());
  point.id = record.read<PointId>();
  point.utility = record.read<float>();
  point.tie = point_hash(point.id, seed, 0);
  return point;
}

/// Writes each copy among the sorted points, and the point that it is linked to. Returns the number
/// of copies.
std::uint64_t write_pairs(std::span<const HashedPoint> points, ByteWriter& pairs) {
  std::uint64_t copies = 0;
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
  return copies;
}

}  // namespace

actors::task<std::uint64_t> PointCopies::find(std::uint64_t exchange_number) {
  known_.reset();
  PointShuffle hashes(session_, {.number = exchange_number, .budget = settings_.exchange_budget},
                      "hashes", kHashedBytes);
  ByteWriter record;
  for (const std::uint32_t shard : session_.shards()) {
    const std::uint64_t past = session_.first_of(shard + 1);
    for (std::uint64_t first = session_.first_of(shard); first < past; first += kHashedRows) {
      VectorBlock rows = input_.read_vectors(first, std::min(first + kHashedRows, past));
      for (float& value : rows.values) value += 0.0F;  // -0 equals 0
      const std::vector<float> utilities = input_.read_utilities(first, rows.size());
      for (std::size_t row = 0; row < rows.size(); ++row) {
        write_hashed(record, rows.view().vectors[row], input_.points(), rows.ids[row],
                     utilities[row]);
        while (!hashes.append(record)) co_await hashes.flush();
      }
    }
  }
  co_await hashes.finish();
  ByteWriter pairs;
  std::uint64_t copies = 0;
  std::vector<HashedPoint> points;
  for (const std::uint32_t shard : session_.shards()) {
    points.clear();
    hashes.drain(
        shard, [&](ByteReader& reader) { points.push_back(read_hashed(reader, settings_.seed)); });
    std::ranges::sort(points, std::less());
    copies += write_pairs(points, pairs);
  }
  WorkerSession::write_state(session_.rank_file("found-copies"), pairs.bytes());
  co_return copies;
}

actors::task<> PointCopies::share(std::uint64_t exchange_number) {
  std::vector<std::byte> arrived;
  mesh::ActorExchange exchange(
      session_.port(), {.number = exchange_number, .budget = settings_.exchange_budget},
      [&](const transfer::ReceivedBlock& block) {
        arrived.insert(arrived.end(), block.bytes().begin(), block.bytes().end());
      });
  const std::vector<std::byte> own = read_spilled(session_.rank_file("found-copies"));
  for (std::size_t at = 0; at < own.size(); at += kPairBytes) {
    const auto pair = std::span(own).subspan(at, kPairBytes);
    for (std::uint32_t rank = 0; rank < session_.num_ranks(); ++rank)
      while (!exchange.append(rank, pair)) co_await exchange.flush(rank);
  }
  co_await exchange.finish();
  WorkerSession::write_state(session_.rank_file("copies"), arrived);
  known_.reset();
}

const std::vector<PointCopies::Copy>& PointCopies::known() {
  if (known_) return *known_;
  const std::vector<std::byte> bytes = read_spilled(session_.rank_file("copies"));
  ByteReader reader(bytes);
  known_.emplace();
  is_copy_.assign(input_.points(), false);
  while (reader.remaining() > 0) {
    const auto copy = reader.read<PointId>();
    known_->push_back({copy, reader.read<PointId>()});
    is_copy_.at(copy) = true;
  }
  std::ranges::sort(*known_);
  return *known_;
}

VectorBlock PointCopies::read_distinct(std::uint64_t first, std::uint64_t past) {
  VectorBlock block = input_.read_vectors(first, past);
  const std::size_t dimensions = block.dimensions;
  std::size_t kept = 0;
  for (std::size_t row = 0; row < block.size(); ++row) {
    if (contains(block.ids[row])) continue;
    if (kept < row) {
      block.ids[kept] = block.ids[row];
      std::memcpy(&block.values[kept * dimensions], &block.values[row * dimensions],
                  dimensions * sizeof(float));
    }
    ++kept;
  }
  block.ids.resize(kept);
  block.values.resize(kept * dimensions);
  return block;
}

void PointCopies::link(std::uint32_t shard, NeighbourLists& lists) {
  const std::vector<Copy>& copies = known();
  const auto first = static_cast<PointId>(session_.first_of(shard));
  for (auto at = std::ranges::lower_bound(copies, first, {}, &Copy::id);
       at != copies.end() && at->id < session_.first_of(shard + 1); ++at)
    lists.at(at->id - first) = {{at->of, fraction_of(1)}};
}

}  // namespace weft::apps
