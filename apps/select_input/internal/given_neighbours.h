#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "apps/select_input/prepare_input.h"
#include "apps/selection/npy_file.h"
#include "apps/selection/shard_spills.h"

namespace weft::apps {

/// Converter from an input's neighbour lists to the files of a PreparedInput. Spills edges to files
/// by ranges of rows, and loads one range at a time. Each edge must be listed by both of its rows.
/// Not thread-safe; use once.
class GivenNeighbours final {
 public:
  /// Invalid edge: `row` lists `other` wrongly or not at all.
  struct InvalidEdge {
    enum class Why : std::uint8_t { kTwice, kMissing, kOtherSimilarity };
    PointId row = 0, other = 0;
    Why why = Why::kTwice;
  };

  /// Creates the spill files in `folder`. `rows` is the number of rows.
  GivenNeighbours(const std::filesystem::path& folder, std::uint64_t rows);

  /// Adds the edge from `row` to `other`, which `row` lists. Throws as SpillWriter does.
  void add(PointId row, PointId other, float similarity);
  /// Writes the files after all edges have been added. `most` is the largest number of neighbours
  /// of a row. Similarities are computed from `vectors`, unless it is null because they were given.
  /// Calls `on_progress` with the rows done. Returns the digest of the files, or the invalid edge
  /// and no files.
  struct Written {
    std::string digest;
    std::optional<InvalidEdge> invalid_edge = {};
  };
  Written write(const PreparedInput& files, std::uint64_t most, const NpyFile* vectors,
                const std::function<void(std::uint64_t)>& on_progress);

 private:
  ShardLayout ranges_;
  ShardSpills edges_;
  ByteWriter record_;
};

}  // namespace weft::apps
