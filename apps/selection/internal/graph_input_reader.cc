#include "apps/selection/internal/graph_input_reader.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <system_error>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

/// Rows of given neighbours to read at a time.
constexpr std::size_t kReadLists = 4096;

template <typename T>
void add_digest(std::string& digest, const std::vector<T>& values) {
  digest += sha256(std::as_bytes(std::span(values)));
}

}  // namespace

GraphInputReader::GraphInputReader(const GraphInput& input, const std::filesystem::path& copies,
                                   std::uint32_t num_neighbours) {
  std::optional<NpyFile>* const opened[] = {&vectors_, &utilities_, &neighbours_, &similarities_};
  const std::vector<GraphInputFile> parts = input.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].path.empty()) continue;
    const std::filesystem::path file =
        copies.empty() ? std::filesystem::path(parts[i].path) : copies / parts[i].name;
    opened[i]->emplace(file, parts[i].elements, parts[i].path);
    files_.emplace_back(file, std::filesystem::last_write_time(file));
  }
  check_points(num_neighbours);
  check_other_files();
}

void GraphInputReader::check_points(std::uint32_t num_neighbours) {
  if (!vectors_ && !(neighbours_ && similarities_))
    throw_error(ErrorCode::kInvalidArgument,
                "a graph is made of vectors, or of neighbours and their similarities");
  const NpyFile& rows = vectors_ ? *vectors_ : *neighbours_;
  points_ = rows.rows();
  dimensions_ = vectors_ ? vectors_->columns() : 0;
  if (points_ < 2 || points_ > std::uint64_t{1} << 32)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} points; a graph needs 2 to 2^32 points",
                rows.path(), points_);
  if (rows.columns() < 1)
    throw_error(ErrorCode::kInvalidArgument,
                "{}: the rows have width 0; expected at least 1 number per row", rows.path());
  if (vectors_ && (num_neighbours < 1 || num_neighbours >= points_))
    throw_error(ErrorCode::kInvalidArgument,
                "graph.neighbors is {}, but there are {} points: set it to 1 to {}", num_neighbours,
                points_, points_ - 1);
}

void GraphInputReader::check_other_files() const {
  const NpyFile& rows = vectors_ ? *vectors_ : *neighbours_;
  for (const auto* other : {&utilities_, &similarities_})
    if (*other && (*other)->rows() != points_)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has {} rows, but {} has {}: both need one row per point", (*other)->path(),
                  (*other)->rows(), rows.path(), points_);
  if (utilities_ && utilities_->columns() != 1)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} numbers per point; expected 1, the utility",
                utilities_->path(), utilities_->columns());
  if (similarities_ && similarities_->columns() != rows.columns())
    throw_error(ErrorCode::kInvalidArgument, "{} has {} of each point, but {} has {} neighbours",
                similarities_->path(), similarities_->columns(), rows.path(), rows.columns());
}

void GraphInputReader::check_unmodified() const {
  for (const auto& [file, written] : files_) {
    std::error_code gone;
    if (std::filesystem::last_write_time(file, gone) != written || gone)
      throw_error(ErrorCode::kUnavailable,
                  "{} was modified while it was read: start again when it is complete",
                  file.string());
  }
}

VectorBlock GraphInputReader::read_vectors(std::uint64_t first, std::uint64_t past) const {
  VectorBlock read{dimensions_};
  read.ids.resize(past - first);
  std::iota(read.ids.begin(), read.ids.end(), static_cast<PointId>(first));
  read.values.resize((past - first) * dimensions_);
  vectors_->read(first, read.values);
  normalise_vectors(read.values, dimensions_, vectors_->path(), first);
  return read;
}

VectorBlock GraphInputReader::read_vectors(std::vector<PointId> rows) const {
  VectorBlock read{dimensions_, std::move(rows)};
  read.values.resize(read.ids.size() * dimensions_);
  for (std::size_t i = 0; i < read.ids.size(); ++i) {
    const std::span<float> row = std::span(read.values).subspan(i * dimensions_, dimensions_);
    vectors_->read(read.ids[i], row);
    normalise_vectors(row, dimensions_, vectors_->path(), read.ids[i]);
  }
  return read;
}

std::vector<float> GraphInputReader::read_utilities(std::uint64_t first, std::size_t rows) const {
  std::vector<float> utilities(rows);
  if (utilities_) utilities_->read(first, utilities);
  return utilities;
}

NeighbourLists GraphInputReader::read_neighbours(std::uint64_t first, std::size_t rows,
                                                 const NeighbourRule& rule) const {
  NeighbourLists lists(rows);
  const std::size_t columns = neighbours_->columns();
  std::vector<std::int64_t> ids;
  std::vector<float> similarities;
  for (std::size_t begin = 0; begin < rows; begin += kReadLists) {
    ids.resize(std::min(kReadLists, rows - begin) * columns);
    similarities.resize(ids.size());
    neighbours_->read_integers(first + begin, ids);
    similarities_->read(first + begin, similarities);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == -1) continue;
      const std::uint16_t similarity = fraction_of(similarities[i]);
      if (similarity >= rule.least())
        lists[begin + i / columns].push_back({static_cast<PointId>(ids[i]), similarity});
    }
  }
  return lists;
}

InputShard GraphInputReader::validate(std::uint32_t shard, std::uint64_t first,
                                      std::uint64_t past) const {
  std::string digest;
  for (std::uint64_t begin = first; begin < past; begin += kValidatedRows) {
    const std::uint64_t end = std::min(begin + kValidatedRows, past);
    if (vectors_) add_digest(digest, read_vectors(begin, end).values);
    if (neighbours_) validate_neighbours(begin, end, digest);
  }
  InputShard result{shard, "", 0, 0};
  if (utilities_) {
    std::vector<float> utilities(past - first);
    utilities_->read(first, utilities);
    for (std::size_t row = 0; row < utilities.size(); ++row)
      if (!std::isfinite(utilities[row]))
        throw_error(ErrorCode::kInvalidArgument,
                    "{}, row {}: the utility is {}; leave the row out, or give it a number",
                    utilities_->path(), first + row,
                    std::isnan(utilities[row]) ? "no number (NaN)" : "infinite");
    add_digest(digest, utilities);
    const auto [least, largest] = std::ranges::minmax(utilities);
    result.least_utility = least;
    result.largest_utility = largest;
  }
  result.digest = sha256(std::as_bytes(std::span(digest)));
  return result;
}

void GraphInputReader::validate_neighbours(std::uint64_t first, std::uint64_t past,
                                           std::string& digest) const {
  const std::size_t columns = neighbours_->columns();
  std::vector<std::int64_t> ids((past - first) * columns);
  std::vector<float> similarities(ids.size());
  neighbours_->read_integers(first, ids);
  similarities_->read(first, similarities);
  for (std::uint64_t row = first; row < past; ++row) {
    const std::size_t at = (row - first) * columns;
    const std::span<const std::int64_t> of_row = std::span(ids).subspan(at, columns);
    for (std::size_t i = 0; i < columns; ++i)
      if (of_row[i] != -1) validate_neighbour(row, of_row[i], similarities[at + i]);
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

void GraphInputReader::validate_neighbour(std::uint64_t row, std::int64_t neighbour,
                                          float similarity) const {
  if (neighbour < 0 || neighbour >= static_cast<std::int64_t>(points_))
    throw_error(ErrorCode::kInvalidArgument,
                "{}, row {}: the neighbour {} does not exist, as there are {} points; set it to -1",
                neighbours_->path(), row, neighbour, points_);
  if (neighbour == static_cast<std::int64_t>(row))
    throw_error(ErrorCode::kInvalidArgument,
                "{}, row {}: the point is its own neighbour; set this entry to -1",
                neighbours_->path(), row);
  if (std::isnan(similarity) || similarity < 0 || similarity > 1)
    throw_error(ErrorCode::kInvalidArgument,
                "{}, row {}: the similarity to {} is {}, not from 0 to 1; scale all, or leave "
                "the neighbour out (-1)",
                similarities_->path(), row, neighbour, similarity);
}

}  // namespace weft::apps
