#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace weft {

/// File read at arbitrary offsets, a part at a time, so that it may be larger than memory.
/// Thread-safe.
class InputFile final {
 public:
  /// Throws Error(kNotFound) or Error(kUnavailable).
  explicit InputFile(std::filesystem::path path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Reads bytes.size() bytes. Returns false if the file ends before. Throws Error(kUnavailable) if
  /// it cannot be read.
  bool read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Drops a range from the page cache, because it will not be read again.
  void drop(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  const std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace weft
