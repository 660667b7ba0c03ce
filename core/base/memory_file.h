#pragma once

#include <string>
#include <string_view>

namespace weft {

/// File in the memory of this process: no other user can take its name first, and no full disk
/// keeps it from being written. Processes of this user can open it while this object lives. One
/// thread at a time.
class MemoryFile final {
 public:
  /// `name`: for those who list the descriptors of this process. Throws
  /// Error(kResourceExhausted).
  explicit MemoryFile(const char* name, std::string_view text = {});
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Closed by exec().
  int descriptor() const { return descriptor_; }
  /// Path for other processes: /proc/PID/fd/NUMBER.
  std::string path() const;

 private:
  int descriptor_;
};

}  // namespace weft
