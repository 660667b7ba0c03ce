#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>

namespace weft {

/// Exclusive lock of a file among the processes of one machine (flock). Released when this object
/// is destroyed or its process exits; the file remains. Movable. Thread-safe.
class FileLock final {
 public:
  /// Locks the file, which is created if missing. Returns nullopt if another lock holds it. Throws
  /// Error(kUnavailable) if it cannot be written or locked.
  static std::optional<FileLock> try_acquire(const std::filesystem::path& path, mode_t mode = 0644);
  /// Blocks until the file is locked. Returns nullopt once `gives_up()`, polled every few
  /// milliseconds, returns true.
  static std::optional<FileLock> acquire(const std::filesystem::path& path,
                                         const std::function<bool()>& gives_up, mode_t mode = 0644);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Returns the descriptor of the locked file, open for reading and writing.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace weft
