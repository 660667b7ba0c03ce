#include "core/base/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace weft {

void raise_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

std::string descriptor_shortage() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
    return "";
  }
  if (errno == ENFILE) return "the machine has no file descriptors left (fs.file-max)";
  if (errno != EMFILE) return "";
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return fmt::format(
      "all {} file descriptors of this process are in use; raise its limit (ulimit -Hn, or "
      "LimitNOFILE of its service)",
      files.rlim_cur);
}

void DescriptorReserve::release() {
  for (const int fd : kept_) ::close(fd);
  kept_.clear();
}

void DescriptorReserve::take() {
  while (size() < count_) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    kept_.push_back(fd);
  }
}

}  // namespace weft
