#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/selection/npy_file.h"

namespace weft::apps {

/// Writer of float32 or int64 rows to a NumPy file, block by block. Memory does not grow with the
/// number of rows, which need not be known in advance. Not thread-safe.
///
/// The file appears under its name at commit(). Without commit(), it is removed.
class NpyWriter final {
 public:
  /// Creates a temporary file. `columns` is at least 1; with 1, the array has one dimension. Throws
  /// Error(kUnavailable) if the folder is not writable.
  NpyWriter(std::filesystem::path path, std::uint64_t columns,
            NpyFile::Elements elements = NpyFile::Elements::kFloats);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();

  /// Appends whole rows. Throws Error(kResourceExhausted) if the disk is full.
  void append(std::span<const float> values) { append_values(values); }
  void append(std::span<const std::int64_t> values) { append_values(values); }
  /// Flushes the file to the disk and renames it. Nothing can be appended afterwards. Throws as
  /// append() does.
  void commit();
  std::uint64_t rows() const { return values_ / columns_; }
  /// Returns a digest of the values and of their division into blocks: the SHA-256 of the previous
  /// blocks' digest and the last block's SHA-256.
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

/// Returns the digest of NpyWriter after one more block.
std::string digest_with(const std::string& digest, std::span<const std::byte> block);

}  // namespace weft::apps
