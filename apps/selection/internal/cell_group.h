#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/selection/nearest.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

/// Writes the points of a rank's cells to spill files, one per group of cells. A point is a base of
/// one cell, and a query of the cells that it searches. Not thread-safe.
class CellGroupWriter final {
 public:
  /// Maximum number of groups, each of which has an open file.
  static constexpr std::uint64_t kMostGroups = 512;

  CellGroupWriter(const std::filesystem::path& folder, std::uint32_t groups);
  void append(std::uint32_t group, std::uint32_t cell, bool is_base, PointId id,
              std::span<const std::byte> vector);
  void commit();

 private:
  std::vector<std::unique_ptr<SpillWriter>> files_;
  ByteWriter record_;
};

/// Points of a group of cells, loaded together: the cells' bases, and the queries that search the
/// cells. Not thread-safe.
class CellGroup final {
 public:
  struct Cell {
    VectorBlock bases, queries;  ///< Sorted by id.
  };

  /// Loads the file of a group and removes it. Throws as SpillReader does.
  CellGroup(const std::filesystem::path& folder, std::uint32_t group, std::size_t dimensions);
  /// Returns the next cell. Null after the last one.
  std::optional<Cell> next();

 private:
  struct CellEntry {
    std::uint32_t cell;
    PointId id;
    bool is_base;
    std::uint32_t row;
    auto operator<=>(const CellEntry&) const = default;
  };

  const std::size_t dimensions_;
  std::vector<CellEntry> entries_;
  std::vector<float> values_;  ///< Row-major vectors.
  std::size_t next_ = 0;
};

}  // namespace weft::apps
