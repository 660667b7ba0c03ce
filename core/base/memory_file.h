#pragma once

#include <string>
#include <string_view>

namespace weft {

/// File in memory (memfd). Other users cannot take its name, and a full disk does not matter.
/// Processes of this user can open it while this object lives. Not thread-safe.
class MemoryFile final {
 public:
  /// `name` appears in listings of this process's descriptors. Throws Error(kResourceExhausted).
  explicit MemoryFile(const char* name, std::string_view text = {});
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Returns the descriptor, which exec() closes.
  int descriptor() const { return descriptor_; }
  /// Returns the path by which other processes open the file: /proc/PID/fd/NUMBER.
  std::string path() const;

 private:
  int descriptor_;
};

}  // namespace weft
