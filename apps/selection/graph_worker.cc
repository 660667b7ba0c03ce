#include "apps/selection/graph_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "apps/selection/centroids.h"
#include "apps/selection/point_store.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Limits of a single read.
constexpr std::uint64_t kReadRows = 16384, kReadBytes = 16 << 20, kInspectedRows = 4096;
/// Purpose of point_hash(), used for nothing else.
constexpr std::uint64_t kRecallSample = ~std::uint64_t{1};

/// Returns the number of vectors of `width` numbers to read at a time.
std::uint64_t rows_at_a_time(std::uint64_t width) {
  return std::clamp<std::uint64_t>(kReadBytes / (width * sizeof(float)), 1, kReadRows);
}

template <typename T>
void add_digest(std::string& digest, const std::vector<T>& values) {
  digest += sha256(std::as_bytes(std::span(values)));
}

std::vector<std::uint16_t> similarities_of(const std::vector<Neighbour>& list) {
  std::vector<std::uint16_t> similarities;
  for (const Neighbour& neighbour : list) similarities.push_back(neighbour.similarity);
  std::ranges::sort(similarities, std::greater());
  return similarities;
}

}  // namespace

GraphWorker::GraphWorker(actors::Context& context) : port_(context) {}

std::filesystem::path GraphWorker::state_file(const char* what, std::uint64_t number,
                                              std::uint64_t shard) const {
  return state_ / fmt::format("{}-{:04}-{:05}", what, number, shard);
}

GraphShape GraphWorker::begin(const GraphSettings& settings) {
  settings_ = settings;
  centroids_.clear();
  copies_.reset();
  shards_.clear();
  state_ = std::filesystem::path(settings.scratch) / "graph";
  spill_ = std::filesystem::path(settings.scratch) / fmt::format("cells-{:05}", port_.rank());
  std::error_code problem;
  std::filesystem::remove_all(spill_, problem);  // left by an earlier epoch
  for (const auto& folder : {std::filesystem::path(settings.store), state_, spill_})
    if (!problem) std::filesystem::create_directories(folder, problem);
  if (problem)
    throw_error(ErrorCode::kUnavailable,
                "cannot make folders in {} and {}: {}; give others for the points and for scratch",
                settings.store, settings.scratch, problem.message());

  std::optional<NpyFile>* const opened[] = {&vectors_, &utilities_, &neighbours_, &similarities_};
  const std::vector<GraphInputFile> parts = settings.input.parts();
  inputs_.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    opened[i]->reset();
    if (parts[i].path.empty()) continue;
    const std::filesystem::path copy = copies(settings.scratch) / parts[i].name;
    const std::filesystem::path file = has_copies_ ? copy : std::filesystem::path(parts[i].path);
    opened[i]->emplace(file, parts[i].elements, parts[i].path);
    inputs_.emplace_back(file, std::filesystem::last_write_time(file));
  }
  if (!vectors_ && !(neighbours_ && similarities_))
    throw_error(ErrorCode::kInvalidArgument,
                "a graph is made of vectors, or of neighbours and their similarities");
  const NpyFile& rows = vectors_ ? *vectors_ : *neighbours_;
  dimensions_ = vectors_ ? vectors_->columns() : 0;
  if (rows.rows() < 2 || rows.rows() > std::uint64_t{1} << 32)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} points; a graph needs 2 to 2^32 points",
                rows.path(), rows.rows());
  if (rows.columns() < 1)
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the rows have width 0; expected at least 1 number per row", rows.path());
  for (const auto* other : {&utilities_, &similarities_})
    if (*other && (*other)->rows() != rows.rows())
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has {} rows, but {} has {}: both need one row per point", (*other)->path(),
                  (*other)->rows(), rows.path(), rows.rows());
  if (utilities_ && utilities_->columns() != 1)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} numbers per point; expected 1, the utility",
                utilities_->path(), utilities_->columns());
  if (similarities_ && similarities_->columns() != rows.columns())
    throw_error(ErrorCode::kInvalidArgument, "{} has {} of each point, but {} has {} neighbours",
                similarities_->path(), similarities_->columns(), rows.path(), rows.columns());
  if (vectors_ && (settings.count < 1 || settings.count >= rows.rows()))
    throw_error(ErrorCode::kInvalidArgument,
                "graph.neighbors is {}, but there are {} points: set it to 1 to {}", settings.count,
                rows.rows(), rows.rows() - 1);

  layout_ = {rows.rows(), static_cast<std::uint32_t>(
                              std::clamp<std::uint64_t>(settings.shards, 1, rows.rows()))};
  for (std::uint32_t shard = 0; shard < layout_.shards; ++shard)
    if (owner_of(static_cast<PointId>(first_of(shard))) == port_.rank()) shards_.push_back(shard);
  if (settings.discard_state) {
    for (const auto& entry : std::filesystem::directory_iterator(state_)) {
      const std::string name = entry.path().filename().string();
      for (const std::uint32_t shard : shards_)  // other workers remove their own
        if (name.ends_with(fmt::format("-{:05}", shard))) std::filesystem::remove(entry.path());
    }
  }
  GraphShape shape{layout_.points, dimensions_, layout_.shards, "", ""};
  if (vectors_) {
    shape.search = vector_search().search->name();
    // The library has allocated its memory by now.
    if (const auto left = available_data())
      settings_.memory = std::min(settings_.memory, *left / 2);
    shape.verify_search = vector_search().problem;
  }
  return shape;
}

void GraphWorker::check_inputs() const {
  for (const auto& [file, written] : inputs_) {
    std::error_code gone;
    if (std::filesystem::last_write_time(file, gone) != written || gone)
      throw_error(ErrorCode::kUnavailable,
                  "{} was modified while it was read: start again when it is complete",
                  file.string());
  }
}

std::uint64_t GraphWorker::missing(bool compared, std::uint32_t cells, std::uint32_t probes) const {
  std::vector<std::filesystem::path> files;
  const std::string rank = fmt::format("-{:05}", port_.rank());
  if (cells > 0) files = {state_ / ("centroids" + rank), state_ / ("samples" + rank)};
  if (compared || probes > 0)
    for (const std::uint32_t shard : shards_)
      files.push_back(state_file("lists", compared ? 0 : probes, shard));
  return static_cast<std::uint64_t>(std::ranges::count_if(
      files, [](const std::filesystem::path& file) { return !std::filesystem::exists(file); }));
}

VectorBlock GraphWorker::read_vectors(std::uint64_t first, std::uint64_t past) const {
  VectorBlock read{dimensions_};
  read.ids.resize(past - first);
  std::iota(read.ids.begin(), read.ids.end(), static_cast<PointId>(first));
  read.values.resize((past - first) * dimensions_);
  vectors_->read(first, read.values);
  normalise_vectors(read.values, dimensions_, vectors_->path(), first);
  return read;
}

PointId GraphWorker::sampled(std::uint64_t index, std::uint64_t count,
                             std::uint64_t purpose) const {
  const ShardLayout ranges{layout_.points, static_cast<std::uint32_t>(count)};
  const auto range = static_cast<std::uint32_t>(index);
  const std::uint64_t first = ranges.first_of(range), past = ranges.first_of(range + 1);
  return static_cast<PointId>(first + draw_below(static_cast<std::uint32_t>(past - first),
                                                 point_hash(index, settings_.seed, purpose)));
}

VectorBlock GraphWorker::read_sample(std::uint64_t count, std::uint64_t purpose) const {
  VectorBlock read{dimensions_};
  for (std::uint64_t i = 0; i < count; ++i) read.ids.push_back(sampled(i, count, purpose));
  read.values.resize(count * dimensions_);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::span<float> row = std::span(read.values).subspan(i * dimensions_, dimensions_);
    vectors_->read(read.ids[i], row);
    normalise_vectors(row, dimensions_, vectors_->path(), read.ids[i]);
  }
  return read;
}

void GraphWorker::validate_range(std::uint64_t first, std::uint64_t past,
                                 std::string& digest) const {
  if (vectors_) add_digest(digest, read_vectors(first, past).values);
  if (!neighbours_) return;
  const std::size_t columns = neighbours_->columns();
  std::vector<std::int64_t> ids((past - first) * columns);
  std::vector<float> similarities(ids.size());
  neighbours_->read_integers(first, ids);
  similarities_->read(first, similarities);
  for (std::uint64_t row = first; row < past; ++row) {
    const std::span<std::int64_t> of_row = std::span(ids).subspan((row - first) * columns, columns);
    for (std::size_t i = 0; i < columns; ++i) {
      const float similarity = similarities[(row - first) * columns + i];
      if (of_row[i] == -1) continue;
      if (of_row[i] < 0 || of_row[i] >= static_cast<std::int64_t>(layout_.points))
        throw_error(
            ErrorCode::kInvalidArgument,
            "{}, row {}: the neighbour {} does not exist, as there are {} points; set it to -1",
            neighbours_->path(), row, of_row[i], layout_.points);
      if (of_row[i] == static_cast<std::int64_t>(row))
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}: the point is its own neighbour; set this entry to -1",
                    neighbours_->path(), row);
      if (std::isnan(similarity) || similarity < 0 || similarity > 1)
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}: the similarity to {} is {}, not from 0 to 1; scale all, or leave "
                    "the neighbour out (-1)",
                    similarities_->path(), row, of_row[i], similarity);
    }
    std::vector<std::int64_t> sorted(of_row.begin(), of_row.end());
    std::erase(sorted, -1);
    std::ranges::sort(sorted);
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
      throw_error(ErrorCode::kInvalidArgument,
                  "{}, row {}: the neighbour {} comes twice; leave one out (-1)",
                  neighbours_->path(), row, *twice);
  }
  add_digest(digest, ids);
  add_digest(digest, similarities);
}

std::vector<InputShard> GraphWorker::validate_rows() {
  std::vector<InputShard> inspected;
  for (const std::uint32_t shard : shards_) {
    std::string digest;
    const std::uint64_t begin = first_of(shard), end = first_of(shard + 1);
    for (std::uint64_t first = begin; first < end; first += kInspectedRows)
      validate_range(first, std::min(first + kInspectedRows, end), digest);
    InputShard result{shard, "", 0, 0};
    if (utilities_) {
      std::vector<float> utilities(end - begin);
      utilities_->read(begin, utilities);
      for (std::size_t row = 0; row < utilities.size(); ++row)
        if (!std::isfinite(utilities[row]))
          throw_error(ErrorCode::kInvalidArgument,
                      "{}, row {}: the utility is {}; leave the row out, or give it a number",
                      utilities_->path(), begin + row,
                      std::isnan(utilities[row]) ? "no number (NaN)" : "infinite");
      add_digest(digest, utilities);
      const auto [least, largest] = std::ranges::minmax(utilities);
      result.least_utility = least;
      result.largest_utility = largest;
    }
    result.digest = sha256(std::as_bytes(std::span(digest)));
    inspected.push_back(std::move(result));
  }
  return inspected;
}

std::uint64_t GraphWorker::bytes_at_least(std::uint64_t points, std::uint64_t width,
                                          std::uint32_t shards, std::uint32_t cells) {
  const std::uint64_t vector = width * sizeof(float);
  const std::uint64_t block = std::min(points, rows_at_a_time(width)) * vector;
  const std::uint64_t inspected = std::min(points, kInspectedRows) * vector;
  if (cells == 0) return std::max(inspected, (points + shards - 1) / shards * vector + block);
  // Each sample has a nearest cell and a product. A centroid is summed in f64.
  const std::uint64_t training = centroid_sample(points, cells, width) * (vector + 12) +
                                 cells * width * (sizeof(float) + sizeof(double));
  return std::max({inspected, training, kSamples * vector + block});
}

SearchCount GraphWorker::search_all() {
  const std::uint64_t block = rows_at_a_time(dimensions_);
  SearchCount count;
  for (const std::uint32_t shard : shards_) {
    const VectorBlock queries = read_distinct(first_of(shard), first_of(shard + 1));
    NeighbourLists lists(queries.size());
    for (std::uint64_t first = 0; first < layout_.points; first += block) {
      const VectorBlock bases = read_distinct(first, std::min(first + block, layout_.points));
      count.pairs += queries.size() * bases.size();
      count.scans += find_nearest(*vector_search().search, settings_.rule(), queries.view(),
                                  bases.view(), lists);
    }
    NeighbourLists of_rows(rows_of(shard));
    for (std::size_t i = 0; i < lists.size(); ++i)
      of_rows[queries.ids[i] - first_of(shard)] = std::move(lists[i]);
    link_copies(shard, of_rows);
    write_lists(shard, 0, of_rows);
  }
  return count;
}

VectorBlock GraphWorker::read_recall_sample() const {
  return read_sample(num_samples(), kRecallSample);
}

std::vector<float> GraphWorker::read_floats(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_spilled(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

std::uint32_t GraphWorker::num_samples() const {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(kSamples, layout_.points));
}

std::vector<SampledNeighbours> GraphWorker::exact_neighbours_of_samples() {
  VectorBlock samples{dimensions_};
  for (std::uint32_t i = 0; i < num_samples(); ++i)
    samples.ids.push_back(sampled(i, num_samples(), kRecallSample));
  samples.values = read_floats(state_ / fmt::format("samples-{:05}", port_.rank()));
  NeighbourLists lists(samples.size());
  const std::uint64_t block = rows_at_a_time(dimensions_);
  for (const std::uint32_t shard : shards_) {
    const std::uint64_t past = first_of(shard + 1);
    for (std::uint64_t first = first_of(shard); first < past; first += block)
      find_nearest(*vector_search().search, settings_.rule(), samples.view(),
                   read_distinct(first, std::min(first + block, past)).view(), lists);
  }
  std::vector<SampledNeighbours> found;
  for (std::uint32_t i = 0; i < lists.size(); ++i) found.push_back({i, similarities_of(lists[i])});
  return found;
}

std::vector<SampledNeighbours> GraphWorker::sampled_results(std::uint32_t probes) {
  std::vector<SampledNeighbours> found;
  NeighbourLists lists;
  std::uint32_t of_shard = layout_.shards;
  for (std::uint32_t i = 0; i < num_samples(); ++i) {
    const PointId id = sampled(i, num_samples(), kRecallSample);
    const std::uint32_t shard = layout_.shard_of(id);
    if (std::ranges::find(shards_, shard) == shards_.end()) continue;
    if (vectors_ && is_copy(id)) continue;  // copies are not searched
    if (shard != of_shard) lists = lists_of(shard, probes);
    of_shard = shard;
    found.push_back({i, similarities_of(lists.at(id - first_of(shard)))});
  }
  return found;
}

std::string GraphWorker::read_manifest(const std::string& digest) {
  std::ifstream stream(manifest_file());
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  const nlohmann::json manifest = nlohmann::json::parse(text, nullptr, false);
  if (!manifest.is_object() || manifest.value("digest", "") != digest) return "";
  try {
    const PointStore store(settings_.store);
    for (const std::uint32_t shard : shards_) store.read(shard);
  } catch (const Error&) {
    return "";  // incomplete or damaged
  }
  return text;
}

void GraphWorker::invalidate_store() { remove_store_index(settings_.store); }

void GraphWorker::publish_store(const std::string& manifest, std::uint64_t directed_edges) {
  write_durably(manifest_file(), manifest);
  write_store_index(settings_.store, layout_, directed_edges);
}

std::filesystem::path GraphWorker::manifest_file() const {
  return std::filesystem::path(settings_.store) / "graph.json";
}

ResourceUsage GraphWorker::resource_usage() {
  return ResourceUsage::of_process(port_.bytes_sent());
}

void GraphWorker::clean() {
  std::error_code ignored;
  std::filesystem::remove_all(state_, ignored);
  std::filesystem::remove_all(spill_, ignored);
  std::filesystem::remove_all(copies(settings_.scratch), ignored);
}

}  // namespace weft::apps
