#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/selection/npy_file.h"

namespace weft::apps {

/// Writes float32 or int64 rows into a file of NumPy's, block by block, so that memory does not
/// grow with their number, which need not be known beforehand. One thread.
///
/// The file appears under its name when it is committed, whole, and never before: what was not
/// committed is removed.
class NpyWriter final {
 public:
  /// `columns`: of a row, at least 1; rows of one number are an array of one dimension. Throws
  /// Error(kUnavailable) if the folder cannot be written to.
  NpyWriter(std::filesystem::path path, std::uint64_t columns,
            NpyFile::Elements elements = NpyFile::Elements::kFloats);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();

  /// Whole rows, after those before. Throws Error(kResourceExhausted) when the disk is full.
  void append(std::span<const float> values) { append_values(values); }
  void append(std::span<const std::int64_t> values) { append_values(values); }
  /// It is on the disk when this returns. Nothing can be appended afterwards. Throws as append().
  void commit();
  std::uint64_t rows() const { return values_ / columns_; }
  /// Names the values and how they were cut into blocks: SHA-256 of that of the blocks before and
  /// that of the last one.
  const std::string& digest() const { return digest_; }

 private:
  template <typename T>
  void append_values(std::span<const T> values);
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  const std::filesystem::path path_;
  const std::uint64_t columns_;
  const NpyFile::Elements elements_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::uint64_t values_ = 0;
  std::string digest_;
};

/// The digest of NpyWriter after one more block.
std::string digest_with(const std::string& digest, std::span<const std::byte> block);

}  // namespace weft::apps
