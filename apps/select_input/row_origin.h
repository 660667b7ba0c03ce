#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/parquet/parquet.h"

namespace weft::apps {

/// Origin of a row. A value.
struct RowOrigin {
  std::string path;  ///< Path of the file.
  /// Position in the file: a byte of a decompressed text, a token for pieces, or the index of a
  /// picture or row.
  std::optional<std::uint64_t> offset = {};
  std::optional<std::uint64_t> length = {};
  std::string label = {};
  std::optional<RowId> id = {};  ///< Id that the input gives the row.

  /// Returns {"path": "texts/a.txt", "offset": 410, "length": 395}, without absent fields.
  std::string json() const;
  friend bool operator==(const RowOrigin&, const RowOrigin&) = default;
};

/// Reader of rows.jsonl, a line of JSON per row. Reads once in ascending order, so that memory does
/// not grow with the number of rows. Not thread-safe.
class RowOriginReader final {
 public:
  /// Opens the file. Throws Error(kNotFound).
  explicit RowOriginReader(std::filesystem::path path);

  /// Returns the place of a row. Rows must not descend between calls. Throws Error(kDataLoss),
  /// which names the file, if the line is missing or damaged.
  RowOrigin at(std::uint64_t row);

 private:
  const std::filesystem::path path_;
  std::ifstream stream_;
  std::uint64_t next_ = 0;  ///< Row of the next line to read.
  std::string line_;        ///< Line of the previous row.
};

}  // namespace weft::apps
