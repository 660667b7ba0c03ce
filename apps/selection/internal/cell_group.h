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

/// The points of some cells of a search, put aside in one file until their turn, and then read all
/// at once: bases, and queries that look into the cells. One thread.
class CellGroup final {
 public:
  struct Cell {
    VectorBlock bases, queries;  ///< By ascending id.
  };

  /// A record of the file.
  static void write(ByteWriter& record, std::uint32_t cell, bool is_base, PointId id,
                    std::span<const std::byte> vector);

  /// Throws what SpillReader throws.
  CellGroup(const std::filesystem::path& file, std::size_t dimensions);
  /// The cell after the last one; nothing behind all.
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
  std::vector<float> values_;  ///< By row.
  std::size_t next_ = 0;
};

}  // namespace weft::apps
