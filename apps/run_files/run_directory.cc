#include "apps/run_files/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

// marks a run's folder, and is locked while the run lives
constexpr const char* kLockFile = ".weft-run";

/// The lock file's descriptor, locked; -1 if another process holds it.
int lock_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    throw_error(ErrorCode::kUnavailable, "cannot write into {}: {}", path.parent_path().string(),
                std::strerror(errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const fs::path a = fs::weakly_canonical(inner);
  const fs::path b = fs::weakly_canonical(outer);
  return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end();
}

/// PATH.n with the first n after all that are taken.
fs::path aside_name(const fs::path& path) {
  for (int n = 1;; ++n) {
    fs::path candidate = path;
    candidate += "." + std::to_string(n);
    if (!fs::exists(fs::symlink_status(candidate))) return candidate;
  }
}

}  // namespace

RunDirectory RunDirectory::prepare(const fs::path& given,
                                   const std::optional<fs::path>& resume_from) {
  fs::path path = fs::absolute(given).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const fs::path lock = path / kLockFile;
  std::optional<fs::path> moved;
  if (fs::exists(path)) {
    if (!fs::is_directory(path))
      throw_error(ErrorCode::kAlreadyExists,
                  "{} is a file; a run needs a folder: choose another with --out", path.string());
    if (fs::exists(lock)) {
      const int fd = lock_file(lock);
      if (fd < 0)
        throw_error(
            ErrorCode::kAlreadyExists,
            "another run is writing to {}: wait for it, or choose another folder with --out",
            path.string());
      if (resume_from && lies_in(*resume_from, path)) return RunDirectory(path, fd);
      moved = aside_name(path);
      fs::rename(path, *moved);
      ::close(fd);
    } else if (!fs::is_empty(path)) {
      throw_error(ErrorCode::kAlreadyExists,
                  "{} holds files that no run has written; empty it yourself, or choose another "
                  "folder with --out",
                  path.string());
    }
  }
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed)
    throw_error(ErrorCode::kUnavailable, "cannot create {}: {}", path.string(), failed.message());
  const int fd = lock_file(lock);
  if (fd < 0)
    throw_error(ErrorCode::kAlreadyExists, "another run has just started in {}", path.string());
  RunDirectory directory(path, fd);
  directory.moved_aside_ = std::move(moved);
  fs::create_directories(directory.checkpoints());
  fs::create_directories(directory.logs());
  return directory;
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::is_directory(path))
    throw_error(ErrorCode::kNotFound, "there is no folder {}; start runs with `weft run`",
                path.string());
  RunDirectory directory(fs::absolute(path).lexically_normal(), -1);
  fs::create_directories(directory.checkpoints());
  fs::create_directories(directory.logs());
  return directory;
}

fs::path RunDirectory::next_abandoned() const { return aside_name(path_ / "abandoned"); }

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      moved_aside_(std::move(other.moved_aside_)),
      lock_(std::exchange(other.lock_, -1)) {}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace weft::apps
