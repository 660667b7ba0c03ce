#include "actors/launch/internal/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"

namespace weft::actors::internal {

namespace {
constexpr std::size_t kMostBytes = 64u << 10;
}  // namespace

void make_own_folder(const std::filesystem::path& folder) {
  if (folder.empty() || ::access(folder.c_str(), F_OK) == 0) return;
  make_own_folder(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_error(ErrorCode::kFailedPrecondition, "cannot make the folder {}: {}", folder.string(),
                ::strerror(errno));
}

std::optional<std::string> read_own_file(const std::filesystem::path& path, const std::string& what,
                                         const std::string& hint, const std::string& open_hint) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw_error(ErrorCode::kFailedPrecondition, "cannot read the {} {}: {}; {}", what,
                path.string(), ::strerror(errno), hint);
  }
  struct stat about {};
  ::fstat(file, &about);
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while (text.size() < kMostBytes && (got = ::read(file, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  ::close(file);
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw_error(ErrorCode::kFailedPrecondition,
                "the {} {} is open to other users (mode {:04o}), {}", what, path.string(),
                about.st_mode & 07777, open_hint);
  return text;
}

void write_own_file(const std::filesystem::path& path, const std::string& text,
                    const std::string& what) {
  const std::filesystem::path part = path.string() + ".part";
  ::unlink(part.c_str());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == std::ssize(text);
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (!written || ::rename(part.c_str(), path.c_str()) != 0)
    throw_error(ErrorCode::kFailedPrecondition,
                "the head cannot write its {} {}: {}; give another folder with --state", what,
                path.string(), ::strerror(written ? errno : problem));
}

}  // namespace weft::actors::internal
