#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::actors {

/// File that was read when a run began. A value.
struct ReadFile {
  std::string name;  ///< Name in messages.
  std::filesystem::path path;
  std::string sha256;  ///< Hash of its content then.
};

/// Detector of files that were edited or removed after they were read. One thread at a time.
class EditWatch final {
 public:
  explicit EditWatch(const std::vector<ReadFile>& files);

  /// Returns "cluster.yaml was edited" for each file that has changed since it was read, once per
  /// file. A file counts as removed when it is missing in two calls, as editors replace files.
  std::vector<std::string> poll_edits();

 private:
  struct Watched {
    ReadFile file;
    /// Modification time in nanoseconds, size and inode of the content that was last compared.
    std::int64_t modified = -1, size = -1;
    std::uint64_t inode = 0;
    int missed = 0;
  };
  static std::string change_of(Watched& watched);

  std::vector<Watched> files_;
};

}  // namespace weft::actors
