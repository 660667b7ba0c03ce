#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "apps/selection/nearest.h"
#include "core/codec/bytes.h"

namespace weft::apps {

/// Points of a group of cells, spilled to one file and then loaded together: the cells' bases, and
/// the queries that search the cells. Not thread-safe.
class CellGroup final {
 public:
  struct Cell {
    VectorBlock bases, queries;  ///< Sorted by id.
  };

  /// Writes a record of the file to `record`.
  static void write(ByteWriter& record, std::uint32_t cell, bool is_base, PointId id,
                    std::span<const std::byte> vector);

  /// Loads a file. Throws as SpillReader does.
  CellGroup(const std::filesystem::path& file, std::size_t dimensions);
  /// Returns the next cell. Null after the last one.
  std::optional<Cell> next();

 private:
  struct Entry {
    std::uint32_t cell;
    PointId id;
    bool is_base;
    std::uint32_t row;
    auto operator<=>(const Entry&) const = default;
  };

  const std::size_t dimensions_;
  std::vector<Entry> entries_;
  std::vector<float> values_;  ///< Row-major vectors.
  std::size_t next_ = 0;
};

}  // namespace weft::apps
