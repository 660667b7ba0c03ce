#include "apps/selection/selection_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "apps/selection/shard_spills.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Results that fit into a message.
constexpr std::size_t kMostResults = 32 * 1024;

}  // namespace

SelectionWorker::SelectionWorker(actors::Context& context) : context_(context), port_(context) {}

std::filesystem::path SelectionWorker::file(const char* what, std::uint64_t number,
                                            std::uint64_t shard) const {
  return state_ / fmt::format("{}-{:04}-{:05}", what, number, shard);
}

std::uint64_t SelectionWorker::generate(const std::string& folder, const GeneratedPoints& request) {
  std::uint64_t edges = 0;
  for (std::uint32_t shard = 0; shard < request.shards; ++shard) {
    if (owner_of_shard(shard, request.shards) != port_.rank()) continue;
    if (context_.stop_token().stop_requested())
      throw_error(ErrorCode::kCancelled,
                  "generating points was cancelled, because the driver disconnected");
    edges += generate_shard(folder, request, shard);
  }
  return edges;
}

void SelectionWorker::write_index(const std::string& folder, const GeneratedPoints& request,
                                  std::uint64_t directed_edges) {
  write_store_index(folder, request.layout(), directed_edges);
}

GroundSet SelectionWorker::inspect_store(const std::string& folder) const {
  try {
    const PointStore store(folder);
    const ShardLayout& layout = store.layout();
    for (std::uint32_t shard = 0; shard < layout.shards; ++shard)
      if (owner_of_shard(shard, layout.shards) == port_.rank()) store.read(shard);
    return {layout.points, layout.shards, store.num_edges()};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return {};
  }
}

GroundSet SelectionWorker::begin(const SelectionSettings& settings) {
  settings_ = settings;
  store_.reset();
  shards_.clear();
  partitions_.clear();
  state_ = std::filesystem::path(settings.scratch) / "state";
  spill_ = std::filesystem::path(settings.scratch) / fmt::format("spill-{:05}", port_.rank());
  std::error_code problem;
  std::filesystem::remove_all(spill_, problem);  // left by an earlier epoch
  std::filesystem::create_directories(state_, problem);
  if (!problem) std::filesystem::create_directories(spill_, problem);
  if (problem)
    throw_error(ErrorCode::kUnavailable, "cannot make folders in {}: {}; give another `scratch`",
                settings.scratch, problem.message());
  if (inspect_store(settings.points).points == 0)
    throw_error(ErrorCode::kNotFound,
                "the points of worker {} do not exist in {} on its host. If a host failed, its "
                "scratch folder is lost: start the run again",
                port_.rank(), settings.points);
  store_.emplace(settings.points);
  for (std::uint32_t shard = 0; shard < layout().shards; ++shard)
    if (owner_of_shard(shard) == port_.rank()) shards_.push_back(shard);
  if (settings.discard_state) {
    for (const auto& entry : std::filesystem::directory_iterator(state_)) {
      const std::string name = entry.path().filename().string();
      for (const std::uint32_t shard : shards_)  // other workers remove their own
        if (name.ends_with(fmt::format("-{:05}", shard))) std::filesystem::remove(entry.path());
    }
  }
  return {layout().points, layout().shards, store_->num_edges()};
}

std::uint64_t SelectionWorker::missing(bool has_bounds, std::uint32_t round) const {
  std::uint64_t missing = 0;
  for (const std::uint32_t shard : shards_) {
    if (has_bounds && !std::filesystem::exists(file("bounds", 0, shard))) ++missing;
    if (round > 0 && !std::filesystem::exists(file("alive", round, shard))) ++missing;
  }
  return missing;
}

std::vector<bool> SelectionWorker::remaining_points(std::uint32_t shard,
                                                    std::uint32_t round) const {
  const std::uint32_t rows = rows_of(shard);
  if (round > 0) {
    const std::vector<std::byte> bytes = read_spilled(file("alive", round, shard));
    std::vector<bool> bits(rows);
    if (bytes.size() != (rows + 7) / 8)
      throw_error(ErrorCode::kDataLoss, "{} belongs to another run; start this run again",
                  file("alive", round, shard).string());
    for (std::uint32_t row = 0; row < rows; ++row)
      bits[row] = (std::to_integer<unsigned>(bytes[row / 8]) >> (row % 8) & 1) != 0;
    return bits;
  }
  std::vector<bool> bits(rows, true);
  if (!settings_.use_bounding) return bits;
  const PointBounds bounds = bounds_of(shard);
  for (std::uint32_t row = 0; row < rows; ++row)
    bits[row] = bounds.state_of(row) == PointState::kOpen;
  return bits;
}

ResourceUsage SelectionWorker::resource_usage() {
  ResourceUsage usage = ResourceUsage::of_process(port_.bytes_sent());
  usage.shard_reads = shard_reads_;
  usage.bounding_reads = bounding_reads_;
  usage.records = records_;
  return usage;
}

void SelectionWorker::clean() {
  std::error_code ignored;
  std::filesystem::remove_all(settings_.scratch, ignored);
}

std::vector<ResultPoint> SelectionWorker::results(std::uint32_t shard, std::uint64_t first) {
  SpillReader reader(file("results", 0, shard));
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

std::vector<PointNeighbour> SelectionWorker::neighbours_of(const std::vector<PointId>& points) {
  std::map<std::uint32_t, std::set<PointId>> by_shard;
  for (const PointId id : points)
    if (owner_of_shard(layout().shard_of(id)) == port_.rank())
      by_shard[layout().shard_of(id)].insert(id);
  std::vector<PointNeighbour> neighbours;
  for (const auto& [shard, ids] : by_shard) {
    PointShardReader reader = store_->read(shard);
    while (const StoredPoint* point = reader.next()) {
      if (!ids.contains(point->id)) continue;
      for (const Neighbour& neighbour : point->neighbours)
        neighbours.push_back({point->id, neighbour.id, neighbour.similarity});
    }
  }
  return neighbours;
}

std::vector<std::string> SelectionWorker::digests() {
  std::vector<std::string> digests;
  for (const std::uint32_t shard : shards_) {
    SpillReader reader(file("results", 0, shard));
    ByteWriter ids;
    for (auto block = reader.next(); !block.empty(); block = reader.next()) {
      ByteReader records(block);
      while (records.remaining() > 0) ids.write(codec<ResultPoint>::read(records).id);
    }
    digests.push_back(sha256(ids.bytes()));
  }
  return digests;
}

}  // namespace weft::apps
