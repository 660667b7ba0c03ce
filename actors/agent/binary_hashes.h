#pragma once

#include <filesystem>
#include <string>

namespace weft::actors {

/// The SHA-256 of executables, taken once for all processes of a user on this machine: kept in a
/// folder, and good as long as the file's place, size and times of change are the same. Without a
/// folder (empty), or where nothing can be written, it is taken each time. Any thread.
class BinaryHashes final {
 public:
  explicit BinaryHashes(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// 64 hexadecimal digits. Waits while another process takes it. Throws Error(kNotFound) where
  /// there is no such file.
  std::string sha256(const std::filesystem::path& binary) const;

 private:
  const std::filesystem::path folder_;
};

}  // namespace weft::actors
