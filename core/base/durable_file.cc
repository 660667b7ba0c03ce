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

fs::path unfinished(const fs::path& path) {
  return path.string() + fmt::format(".{}.new", ::gettid());
}

void replace_file(const fs::path& path, const std::string& content) {
  const fs::path temporary = unfinished(path);
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

}  // namespace weft
