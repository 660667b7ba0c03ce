#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft {

/// A file in the address space: its pages are read when they are touched, may leave memory at any
/// time, and are shared with others who map it. Nobody may change the file meanwhile. Any thread.
class MappedFile final {
 public:
  /// Throws Error(kNotFound) if it cannot be opened, Error(kDataLoss) if it is none that can be
  /// mapped.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace weft
