#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft {

/// Read-only memory mapping of a file. Pages are loaded on access, may be evicted at any time, and
/// are shared with other processes that map the file. The file must not change meanwhile.
/// Thread-safe.
class MappedFile final {
 public:
  /// Throws Error(kNotFound) if the file cannot be opened, Error(kDataLoss) if it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace weft
