#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/selection/graph_messages.h"
#include "apps/selection/nearest.h"
#include "apps/selection/neighbours.h"
#include "apps/selection/npy_file.h"

namespace weft::apps {

/// Opened input files of a graph: vectors, or given neighbours with their similarities; and
/// utilities, unless all are equal. Reads rows on request. Depends on the files alone, not on
/// workers. Not thread-safe.
class GraphInputReader final {
 public:
  /// Opens the files. `copies` is the folder of their partial copies if this host lacks the input
  /// (see InputTransfer), else empty. `num_neighbours` is GraphSettings::count. Throws
  /// Error(kInvalidArgument), which names the file, if the files do not match.
  GraphInputReader(const GraphInput& input, const std::filesystem::path& copies,
                   std::uint32_t num_neighbours);

  std::uint64_t points() const { return points_; }
  bool has_vectors() const { return vectors_.has_value(); }
  bool has_utilities() const { return utilities_.has_value(); }
  std::size_t dimensions() const { return dimensions_; }  ///< 0 if neighbours are given.
  const std::string& neighbours_path() const { return neighbours_->path(); }
  const std::string& similarities_path() const { return similarities_->path(); }

  /// Throws Error(kUnavailable) if a file was modified since it was opened.
  void check_unmodified() const;

  /// Returns the vectors of consecutive rows, scaled to length 1.
  VectorBlock read_vectors(std::uint64_t first, std::uint64_t past) const;
  /// Returns the vectors of these rows, scaled to length 1.
  VectorBlock read_vectors(std::vector<PointId> rows) const;
  /// Returns `rows` utilities from `first` on. All are 0 if the input has none.
  std::vector<float> read_utilities(std::uint64_t first, std::size_t rows) const;
  /// Returns the given neighbours of `rows` rows from `first` on whose similarity the rule allows.
  NeighbourLists read_neighbours(std::uint64_t first, std::size_t rows,
                                 const NeighbourRule& rule) const;

  /// Reads the rows of a shard, from `first` to before `past`. Throws Error(kInvalidArgument),
  /// which names file and row, for invalid values.
  InputShard validate(std::uint32_t shard, std::uint64_t first, std::uint64_t past) const;

 private:
  /// Checks the file of vectors or of neighbours, which defines the points.
  void check_points(std::uint32_t num_neighbours);
  /// Checks that the other files match it.
  void check_other_files() const;
  /// Checks given neighbours and adds their content to `digest`.
  void validate_neighbours(std::uint64_t first, std::uint64_t past, std::string& digest) const;
  void validate_neighbour(std::uint64_t row, std::int64_t neighbour, float similarity) const;

  std::optional<NpyFile> vectors_, utilities_, neighbours_, similarities_;
  /// Files of the input and their modification times.
  std::vector<std::pair<std::filesystem::path, std::filesystem::file_time_type>> files_;
  std::uint64_t points_ = 0;
  std::size_t dimensions_ = 0;
};

/// Rows to validate at a time.
inline constexpr std::uint64_t kValidatedRows = 4096;

}  // namespace weft::apps
