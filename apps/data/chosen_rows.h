#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"

namespace weft::apps {

/// Rows that were chosen from the training part of a data set, as a selection leaves them in a
/// folder, mapped into memory. Any thread.
///
///   subset.json   {"count": 5400, "of": 54000, "data_digest": "9f0c.."}
///   points.u32    the chosen rows, ascending: four little-endian bytes each
class ChosenRows final {
 public:
  /// Checks both files, row by row. Throws Error(kNotFound) or Error(kDataLoss), naming the file;
  /// Error(kIncompatible) if they were chosen from other data than those with this digest and
  /// number of rows, which `what` names: "the pictures of this run".
  ChosenRows(const std::filesystem::path& folder, const std::string& data_digest, std::size_t of,
             const std::string& what);

  /// Leaves such a folder; `rows` ascend. Throws Error(kUnavailable).
  static void write(const std::filesystem::path& folder, std::span<const std::uint32_t> rows,
                    std::size_t of, const std::string& data_digest);
  /// The same, where rows_in(folder) has been written before.
  static void describe(const std::filesystem::path& folder, std::size_t count, std::size_t of,
                       const std::string& data_digest);
  static std::filesystem::path description_in(const std::filesystem::path& folder) {
    return folder / "subset.json";
  }
  static std::filesystem::path rows_in(const std::filesystem::path& folder) {
    return folder / "points.u32";
  }

  std::size_t size() const { return file_.bytes().size() / 4; }
  std::uint32_t operator[](std::size_t i) const;
  /// Of the rows' file.
  std::string sha256() const;

 private:
  const MappedFile file_;
};

/// `count` of `of` rows, ascending: those with the least hashes of (seed, row), so that the smaller
/// of two parts lies in the larger one.
std::vector<std::uint32_t> random_rows(std::size_t of, std::size_t count, std::uint64_t seed);

}  // namespace weft::apps
