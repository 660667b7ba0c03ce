#include "apps/run_files/internal/checkpoint_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>

#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:08}", kCheckpointPrefix, step);
}

bool is_complete(const fs::path& checkpoint) {
  std::error_code ignored;
  return fs::is_regular_file(checkpoint / kDescriptionFile, ignored);
}

std::int64_t step_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  std::int64_t step = -1;
  if (name.starts_with(kCheckpointPrefix))
    std::from_chars(name.data() + kCheckpointPrefix.size(), name.data() + name.size(), step);
  return step;
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kCheckpointPrefix) || !is_complete(entry.path())) continue;
    // Counts only while the new one is not there.
    if (name.ends_with(kReplacedSuffix) &&
        is_complete(folder / name.substr(0, name.size() - kReplacedSuffix.size())))
      continue;
    found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

void flush_to_disk(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!flushed)
    throw_error(ErrorCode::kUnavailable, "cannot flush {} to the disk: {}", path.string(),
                std::strerror(reason));
}

void replace_file(const fs::path& path, const std::string& content) {
  fs::path temporary = path;
  temporary += ".new";
  std::ofstream out(temporary, std::ios::binary);
  out << content;
  out.close();
  if (!out)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", temporary.string(),
                std::strerror(errno));
  flush_to_disk(temporary);
  std::error_code failed;
  fs::rename(temporary, path, failed);
  if (failed)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(), failed.message());
  flush_to_disk(path.parent_path());
}

}  // namespace weft::apps
