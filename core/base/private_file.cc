#include "core/base/private_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <utility>

#include "core/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64u << 10;
constexpr int kMostLinks = 40;

class OwnedDescriptor final {
 public:
  explicit OwnedDescriptor(int number = -1) : number_(number) {}
  ~OwnedDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

bool is_trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

bool others_may_write(int folder) {
  struct stat about {};
  if (::fstat(folder, &about) != 0) return true;
  struct statvfs system {};
  if (::fstatvfs(folder, &system) == 0 && (system.f_flag & ST_RDONLY) != 0) return false;
  return !is_trusted(about.st_uid) || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/// Returns true for a folder of /proc. Its links lead to objects without a path, such as pipes,
/// which only the kernel can follow.
bool is_of_proc(int folder) {
  struct statfs system {};
  return ::fstatfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

/// Result of a path walk: the last folder, and a name in it that is not a file system link.
struct PathTarget {
  OwnedDescriptor folder;
  std::string name;
  bool of_proc = false;
  bool exists = false;
};

/// Resolves a path like the kernel, but rejects links that other users could have made. go()
/// returns nullopt and sets errno if the path does not exist.
class PathResolver final {
 public:
  explicit PathResolver(const fs::path& path) : path_(path) {}

  std::optional<PathTarget> go() {
    if (path_.empty()) return fail(ENOENT);
    enter(path_);
    while (true) {
      if (!at_.valid()) return std::nullopt;
      if (todo_.empty()) return PathTarget{std::move(at_), ".", false, true};
      const std::string name = std::move(todo_.front());
      todo_.pop_front();
      OwnedDescriptor next(::openat(at_.number(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      if (!next.valid()) {
        if (errno == ENOENT && todo_.empty()) return PathTarget{std::move(at_), name, false, false};
        return std::nullopt;
      }
      struct stat about {};
      if (::fstat(next.number(), &about) != 0) return std::nullopt;
      const bool of_proc = S_ISLNK(about.st_mode) && is_of_proc(at_.number());
      if (S_ISLNK(about.st_mode) && !of_proc) {
        if (!follow(name, next.number())) return std::nullopt;
        continue;
      }
      if (todo_.empty()) return PathTarget{std::move(at_), name, of_proc, true};
      at_ = of_proc ? OwnedDescriptor(::openat(at_.number(), name.c_str(), O_PATH | O_CLOEXEC))
                    : std::move(next);
    }
  }

 private:
  static std::optional<PathTarget> fail(int error) {
    errno = error;
    return std::nullopt;
  }

  /// Prepends the parts of `path` to the parts still to be resolved.
  void enter(const fs::path& path) {
    if (path.is_absolute() || !at_.valid())
      at_ =
          OwnedDescriptor(::open(path.is_absolute() ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::deque<std::string> parts;
    for (const fs::path& part : path.relative_path())
      if (!part.empty() && part != ".") parts.push_back(part.string());
    todo_.insert(todo_.begin(), parts.begin(), parts.end());
  }

  bool follow(const std::string& name, int link) {
    if (others_may_write(at_.number()))
      throw_error(ErrorCode::kFailedPrecondition,
                  "{}: the link '{}' lies in a folder that other users can write to, so another "
                  "user may have made it; give the path that it leads to, or take that right from "
                  "them (chmod go-w)",
                  path_.string(), name);
    char target[PATH_MAX + 1];
    const ssize_t length = ::readlinkat(link, "", target, PATH_MAX);
    if (length < 0 || ++links_ > kMostLinks) {
      if (length >= 0) errno = ELOOP;
      return false;
    }
    target[length] = '\0';
    enter(fs::path(target));
    return true;
  }

  const fs::path path_;
  OwnedDescriptor at_;
  std::deque<std::string> todo_;
  int links_ = 0;
};

void check_owner(const fs::path& path, const struct stat& about, const std::string& remedy) {
  if (is_trusted(about.st_uid)) return;
  throw_error(ErrorCode::kFailedPrecondition,
              "{} belongs to another user (uid {}, this process runs as {}): {}", path.string(),
              about.st_uid, ::geteuid(), remedy);
}

}  // namespace

int open_trusted(const fs::path& path, int flags, mode_t mode) {
  const std::string remedy = "remove it, or give another place";
  auto place = PathResolver(path).go();
  if (!place) return -1;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  const auto check = [&](const struct stat& about) {
    check_owner(path, about, remedy);
    if (writes && S_ISREG(about.st_mode) && about.st_nlink > 1 &&
        others_may_write(place->folder.number()))
      throw_error(ErrorCode::kFailedPrecondition,
                  "{} has a second hard link, and other users can write to its folder, so another "
                  "user may have put it there: {}",
                  path.string(), remedy);
  };
  struct stat about {};
  // Checked before opening, because opening another user's pipe could block forever.
  const int follows = place->of_proc ? 0 : AT_SYMLINK_NOFOLLOW;
  if (place->exists && ::fstatat(place->folder.number(), place->name.c_str(), &about, follows) == 0)
    check(about);
  OwnedDescriptor opened(::openat(place->folder.number(), place->name.c_str(),
                                  flags | O_CLOEXEC | (place->of_proc ? 0 : O_NOFOLLOW), mode));
  if (!opened.valid() || ::fstat(opened.number(), &about) != 0) return -1;
  check(about);
  return opened.release();
}

void check_trusted_owner(const fs::path& path, const std::string& remedy) {
  const auto place = PathResolver(path).go();
  struct stat about {};
  if (place && place->exists &&
      ::fstatat(place->folder.number(), place->name.c_str(), &about,
                place->of_proc ? 0 : AT_SYMLINK_NOFOLLOW) == 0)
    check_owner(path, about, remedy);
}

void create_private_folder(const fs::path& folder) {
  if (folder.empty()) return;
  if (::access(folder.c_str(), F_OK) == 0)
    return check_trusted_owner(folder, "give another folder");
  if (const fs::path above = folder.parent_path(); ::access(above.c_str(), F_OK) != 0)
    create_private_folder(above);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_error(ErrorCode::kFailedPrecondition, "cannot create the folder {}: {}", folder.string(),
                std::strerror(errno));
  check_trusted_owner(folder, "give another folder");
}

fs::path private_temporary_folder(const fs::path& temporary, const std::string& why) {
  fs::path folder = temporary / fmt::format("weft-{}", ::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw_error(ErrorCode::kFailedPrecondition,
                "{}, and the folder {} cannot be created: {}; set HOME", why, folder.string(),
                std::strerror(errno));
  struct stat about {};
  const bool there = ::lstat(folder.c_str(), &about) == 0;
  if (!there || !S_ISDIR(about.st_mode) || about.st_uid != ::geteuid() ||
      (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw_error(
        ErrorCode::kFailedPrecondition,
        "{}, and {}, which would be used instead, is not a folder of this user alone (owner "
        "{}, mode {:04o}): another user could have put something there. Set HOME, or remove "
        "it",
        why, folder.string(), about.st_uid, about.st_mode & 07777);
  return folder;
}

std::optional<std::string> read_private_file(const fs::path& path, const std::string& what,
                                             const std::string& hint,
                                             const std::string& open_hint) {
  const OwnedDescriptor file(open_trusted(path, O_RDONLY | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw_error(ErrorCode::kFailedPrecondition, "cannot read the {} {}: {}; {}", what,
                path.string(), std::strerror(errno), hint);
  }
  struct stat about {};
  ::fstat(file.number(), &about);
  std::string text;
  char part[4096];
  ssize_t got = 0;
  while (text.size() < kMostBytes && (got = ::read(file.number(), part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw_error(ErrorCode::kFailedPrecondition,
                "the {} {} is open to other users (mode {:04o}), {}", what, path.string(),
                about.st_mode & 07777, open_hint);
  return text;
}

void write_private_file(const fs::path& path, const std::string& text, const std::string& what,
                        const std::string& hint) {
  const fs::path part = path.string() + ".part";
  ::unlink(part.c_str());
  const OwnedDescriptor file(open_trusted(part, O_WRONLY | O_CREAT | O_EXCL, 0600));
  errno = ENOSPC;  // the error to report for a short write
  if (file.valid() && ::write(file.number(), text.data(), text.size()) == std::ssize(text) &&
      ::rename(part.c_str(), path.c_str()) == 0)
    return;
  const int why = errno;
  ::unlink(part.c_str());
  throw_error(ErrorCode::kFailedPrecondition, "cannot write the {} {}: {}; {}", what, path.string(),
              std::strerror(why), hint);
}

}  // namespace weft
