#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"

namespace weft::apps {

/// Rows chosen from the training part of a data set, mapped into memory from the folder that a
/// selection wrote. Callable from any thread.
///
///   subset.json   {"count": 5400, "of": 54000, "data_digest": "9f0c.."}
///   points.u32    the chosen rows in ascending order, four little-endian bytes each
class ChosenRows final {
 public:
  /// Checks both files, row by row. Throws Error(kNotFound) or Error(kDataLoss), which names the
  /// file. Throws Error(kIncompatible) if the rows were chosen from data with another digest or
  /// number of rows. `what` names the expected data in that error: "the pictures of this run".
  ChosenRows(const std::filesystem::path& folder, const std::string& data_digest, std::size_t of,
             const std::string& what);

  /// Writes such a folder. `rows` must ascend. Throws Error(kUnavailable).
  static void write(const std::filesystem::path& folder, std::span<const std::uint32_t> rows,
                    std::size_t of, const std::string& data_digest);
  /// Writes the description only, for a folder whose rows_in() file exists already.
  static void write_description(const std::filesystem::path& folder, std::size_t count,
                                std::size_t of, const std::string& data_digest);
  static std::filesystem::path description_in(const std::filesystem::path& folder) {
    return folder / "subset.json";
  }
  static std::filesystem::path rows_in(const std::filesystem::path& folder) {
    return folder / "points.u32";
  }

  std::size_t size() const { return file_.bytes().size() / 4; }
  std::uint32_t operator[](std::size_t i) const;
  /// Returns the digest of the file of rows.
  std::string sha256() const;

 private:
  const MappedFile file_;
};

/// Returns `count` of `of` rows in ascending order: those with the smallest hashes of (seed, row).
/// A smaller selection is a subset of a larger one.
std::vector<std::uint32_t> random_rows(std::size_t of, std::size_t count, std::uint64_t seed);

}  // namespace weft::apps
