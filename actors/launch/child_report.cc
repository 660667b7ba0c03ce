#include "actors/launch/child_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iterator>

#include "core/base/terminal.h"

namespace weft::actors {

std::string ChildReport::read() const {
  std::string text;
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(file_.descriptor(), part.data(), part.size(), at);
    if (got <= 0) break;
    text.append(part.data(), got);
    at += got;
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

void write_child_report(const std::string& path, const std::string& text) {
  const int fd = path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  const bool left = fd >= 0 && ::write(fd, text.data(), text.size()) == std::ssize(text);
  if (fd >= 0) ::close(fd);
  if (!left) say(stderr, "{}\n", text);
}

}  // namespace weft::actors
