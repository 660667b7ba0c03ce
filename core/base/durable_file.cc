#include "core/base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "core/base/error.h"

namespace weft {
namespace fs = std::filesystem;

void flush_to_disk(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool flushed = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!flushed)
    throw_error(ErrorCode::kUnavailable, "cannot flush {} to the disk: {}", path.string(),
                std::strerror(reason));
}

fs::path temporary_name_of(const fs::path& path) {
  return path.string() + fmt::format(".{}.new", ::gettid());
}

namespace {

/// Writes the temporary file of `path` and returns its name. Errors name `path`.
fs::path write_temporary(const fs::path& path, const std::string& content, ::mode_t mode) {
  fs::path temporary = temporary_name_of(path);
  // Removes a file left by a crash, which may have another mode, or a link made by another user.
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  std::size_t written = 0;
  while (fd >= 0 && written < content.size()) {
    const ssize_t count = ::write(fd, content.data() + written, content.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += count;
  }
  int reason = errno;
  if (fd >= 0 && ::close(fd) != 0 && written == content.size()) {
    reason = errno;
    written = 0;
  }
  if (fd < 0 || written != content.size()) {
    if (fd >= 0) ::unlink(temporary.c_str());
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(),
                std::strerror(reason));
  }
  return temporary;
}

}  // namespace

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", to.string(), failed.message());
}

void write_in_place(const fs::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  out.close();
  if (!out)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(),
                std::strerror(errno));
}

void write_atomically(const fs::path& path, const std::string& content, ::mode_t mode) {
  rename_file(write_temporary(path, content, mode), path);
}

void write_durably(const fs::path& path, const std::string& content) {
  const fs::path temporary = write_temporary(path, content, 0666);
  flush_to_disk(temporary);
  rename_file(temporary, path);
  flush_to_disk(path.parent_path());
}

}  // namespace weft
