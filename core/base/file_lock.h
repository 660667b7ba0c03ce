#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>

namespace weft {

/// A file that one open lock has at a time on this machine, and that stays when the lock is gone:
/// with this object, or its process (flock). Moves; any thread.
class FileLock final {
 public:
  /// Makes the file if it is not there. Nothing if another has it. Throws Error(kUnavailable) where
  /// it cannot be written.
  static std::optional<FileLock> try_take(const std::filesystem::path& path, mode_t mode = 0644);
  /// Waits for it; nothing once `gives_up` says so, which is asked many times a second.
  static std::optional<FileLock> take(const std::filesystem::path& path,
                                      const std::function<bool()>& gives_up, mode_t mode = 0644);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  /// Of the file, to read and write.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace weft
