#include "apps/selection/point_store.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/check.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"

namespace weft::apps {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kPointBytes = 8, kNeighbourBytes = 6;
/// Offset added to the degree of a copy, which has few neighbours.
constexpr std::size_t kCopyDegree = 0xff00;

std::filesystem::path shard_file(const std::filesystem::path& folder, std::uint32_t shard) {
  return folder / fmt::format("points-{:05}", shard);
}

std::filesystem::path index_file(const std::filesystem::path& folder) {
  return folder / "points.json";
}

}  // namespace

std::uint32_t ShardLayout::shard_of(PointId id) const {
  // The product fits, as ids and shards have 32 bits each.
  std::uint32_t shard = std::uint64_t{id} * shards / points;
  while (first_of(shard + 1) <= id) ++shard;
  return shard;
}

std::int64_t gain_of(const StoredPoint& point, const Objective& objective) {
  return objective.gain_alone(point.utility) - (point.is_copy ? kCopyPenalty : 0);
}

PointShardWriter::PointShardWriter(const std::filesystem::path& folder, const ShardLayout& layout,
                                   std::uint32_t shard)
    : layout_(layout),
      shard_(shard),
      next_(layout.first_of(shard)),
      file_(shard_file(folder, shard)) {
  WEFT_CHECK(shard < layout.shards, "shard {} of {}", shard, layout.shards);
}

void PointShardWriter::append(std::uint16_t utility, std::span<const Neighbour> neighbours,
                              PointKind kind) {
  const bool is_copy = kind == PointKind::kCopy;
  WEFT_CHECK(next_ < layout_.first_of(shard_ + 1), "point {} is not of shard {}", next_, shard_);
  WEFT_CHECK(!is_copy || neighbours.size() <= 0xff, "a copy with {} neighbours", neighbours.size());
  if (neighbours.size() >= kCopyDegree)
    throw_error(ErrorCode::kInvalidArgument,
                "point {} has {} neighbours; at most {} can be kept: ask for fewer, or raise "
                "the least similarity",
                next_, neighbours.size(), kCopyDegree - 1);
  ByteWriter record(kPointBytes + kNeighbourBytes * neighbours.size());
  record.write<std::uint32_t>(next_);
  record.write(utility);
  record.write(static_cast<std::uint16_t>(neighbours.size() + (is_copy ? kCopyDegree : 0)));
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    const Neighbour& neighbour = neighbours[i];
    if (neighbour.id >= layout_.points)
      throw_error(ErrorCode::kInvalidArgument, "point {} has the neighbour {}, but there are {}",
                  next_, neighbour.id, layout_.points);
    if (neighbour.id == next_)
      throw_error(ErrorCode::kInvalidArgument, "point {} is its own neighbour", next_);
    if (i > 0 && neighbours[i - 1].id >= neighbour.id)
      throw_error(ErrorCode::kInvalidArgument,
                  "point {} has the neighbour {} behind {}: each comes once, in ascending order",
                  next_, neighbour.id, neighbours[i - 1].id);
    record.write(neighbour.id);
    record.write(neighbour.similarity);
  }
  file_.append(record.bytes(), next_);
  edges_ += neighbours.size();
  ++next_;
}

void PointShardWriter::commit() {
  if (const std::uint64_t past = layout_.first_of(shard_ + 1); next_ != past)
    throw_error(ErrorCode::kInvalidArgument, "shard {} ends at point {}, not at {}", shard_, next_,
                past);
  file_.commit();
}

PointStore::PointStore(std::filesystem::path folder) : folder_(std::move(folder)) {
  const std::filesystem::path path = index_file(folder_);
  std::ifstream stream(path);
  if (!stream)
    throw_error(
        ErrorCode::kNotFound,
        "{} does not exist: {} has no points, or writing them was interrupted; make them again",
        path.string(), folder_.string());
  const nlohmann::json index = nlohmann::json::parse(stream, nullptr, false);
  try {
    if (const int version = index.at("version").get<int>(); version != kVersion)
      throw_error(ErrorCode::kIncompatible,
                  "{} has version {}, but this program reads version {}; make the points again",
                  path.string(), version, kVersion);
    layout_.points = index.at("points").get<std::uint64_t>();
    layout_.shards = index.at("shards").get<std::uint32_t>();
    edges_ = index.at("directed_edges").get<std::uint64_t>();
  } catch (const nlohmann::json::exception&) {
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: it does not describe points; remove it to make the points again",
                path.string());
  }
  if (layout_.points == 0 || layout_.points > std::uint64_t{1} << 32 || layout_.shards == 0)
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged: {} points in {} shards; make the points again", path.string(),
                layout_.points, layout_.shards);
}

PointShardReader::PointShardReader(const std::filesystem::path& folder, const ShardLayout& layout,
                                   std::uint32_t shard)
    : path_(shard_file(folder, shard)),
      layout_(layout),
      shard_(shard),
      next_(layout.first_of(shard)),
      file_(path_) {
  WEFT_CHECK(shard < layout.shards, "shard {} of {}", shard, layout.shards);
}

void PointShardReader::check(bool is_right) const {
  if (!is_right)
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged or is not shard {} of {} (at point {}); make the points again",
                path_.string(), shard_, index_file(path_.parent_path()).string(), next_);
}

std::optional<std::size_t> PointShardReader::begin_point() {
  const std::uint64_t past = layout_.first_of(shard_ + 1);
  if (block_.empty()) block_ = file_.next();
  if (block_.empty()) {
    check(next_ == past);
    return std::nullopt;
  }
  check(next_ < past && block_.size() >= kPointBytes);
  ByteReader reader(block_);
  point_.id = reader.read<std::uint32_t>();
  point_.utility = reader.read<std::uint16_t>();
  std::size_t degree = reader.read<std::uint16_t>();
  point_.is_copy = degree >= kCopyDegree;
  if (point_.is_copy) degree -= kCopyDegree;
  check(point_.id == next_ && reader.remaining() >= degree * kNeighbourBytes);
  block_ = block_.subspan(kPointBytes);
  ++next_;
  return degree;
}

const StoredPoint* PointShardReader::next() {
  const std::optional<std::size_t> degree = begin_point();
  if (!degree) return nullptr;
  ByteReader reader(block_);
  neighbours_.resize(*degree);
  for (Neighbour& neighbour : neighbours_) {
    neighbour.id = reader.read<std::uint32_t>();
    neighbour.similarity = reader.read<std::uint16_t>();
    check(neighbour.id < layout_.points);
  }
  point_.neighbours = neighbours_;
  block_ = block_.subspan(reader.position());
  return &point_;
}

void PointShardReader::skip() {
  const std::optional<std::size_t> degree = begin_point();
  check(degree.has_value());
  block_ = block_.subspan(*degree * kNeighbourBytes);
}

PointGraph PointStore::load(const Objective& objective) const {
  PointGraph graph;
  graph.ids.reserve(layout_.points);
  graph.gains.reserve(layout_.points);
  graph.first.reserve(layout_.points + 1);
  graph.neighbours.reserve(edges_);
  graph.similarities.reserve(edges_);
  graph.first.push_back(0);
  for (std::uint32_t shard = 0; shard < layout_.shards; ++shard) {
    PointShardReader reader = read(shard);
    while (const StoredPoint* point = reader.next()) {
      graph.ids.push_back(point->id);
      graph.gains.push_back(gain_of(*point, objective));
      for (const Neighbour& neighbour : point->neighbours) {
        graph.neighbours.push_back(neighbour.id);
        graph.similarities.push_back(neighbour.similarity);
      }
      graph.first.push_back(graph.num_edges());
    }
  }
  return graph;
}

void remove_store_index(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::remove(index_file(folder), problem);
  if (problem)
    throw_error(ErrorCode::kUnavailable, "cannot remove {}: {}", index_file(folder).string(),
                problem.message());
}

void write_store_index(const std::filesystem::path& folder, const ShardLayout& layout,
                       std::uint64_t edges) {
  const nlohmann::ordered_json index = {{"version", kVersion},
                                        {"points", layout.points},
                                        {"shards", layout.shards},
                                        {"directed_edges", edges}};
  write_durably(index_file(folder), index.dump(2) + "\n");
}

}  // namespace weft::apps
