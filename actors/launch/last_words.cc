#include "actors/launch/last_words.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/error.h"
#include "core/base/terminal.h"

namespace weft::actors {

LastWords::LastWords() : fd_(::memfd_create("last words", MFD_CLOEXEC)) {
  if (fd_ < 0)
    throw_error(ErrorCode::kResourceExhausted, "cannot make a file in memory: {}",
                std::strerror(errno));
}

LastWords::~LastWords() { ::close(fd_); }

std::string LastWords::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

std::string LastWords::read() const {
  std::string text;
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd_, part.data(), part.size(), at);
    if (got <= 0) break;
    text.append(part.data(), got);
    at += got;
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

void leave_last_words(const std::string& path, const std::string& text) {
  const int fd = path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  const bool left = fd >= 0 && ::write(fd, text.data(), text.size()) == std::ssize(text);
  if (fd >= 0) ::close(fd);
  if (!left) say(stderr, "{}\n", text);
}

}  // namespace weft::actors
