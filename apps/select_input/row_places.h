#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/parquet/parquet.h"

namespace weft::apps {

/// Where a row came from. A value.
struct RowPlace {
  std::string path;  ///< Of the file.
  /// Bytes of an unpacked text; tokens, of a text in pieces; pictures or rows, of a file of many.
  std::optional<std::uint64_t> offset = {};
  std::optional<std::uint64_t> length = {};
  std::string label = {};
  std::optional<RowId> id = {};  ///< What the input names the row by.

  /// {"path": "texts/a.txt", "offset": 410, "length": 395}: what is not there is left out.
  std::string json() const;
  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};

/// The places of rows, a line of JSON each, which is read once and by ascending row, so that memory
/// does not grow with their number. One thread.
class RowPlaces final {
 public:
  /// Throws Error(kNotFound).
  explicit RowPlaces(std::filesystem::path path);

  /// Of a row that is not before the last one asked for. Throws Error(kDataLoss) naming the file if
  /// it has no such line.
  RowPlace at(std::uint64_t row);

 private:
  const std::filesystem::path path_;
  std::ifstream stream_;
  std::uint64_t next_ = 0;  ///< Row of the next line.
  std::string line_;        ///< Of the row before.
};

}  // namespace weft::apps
