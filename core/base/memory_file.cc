#include "core/base/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/base/error.h"

namespace weft {

MemoryFile::MemoryFile(const char* name, std::string_view text)
    : descriptor_(::memfd_create(name, MFD_CLOEXEC)) {
  ssize_t written = descriptor_ < 0 ? -1 : 0;
  while (written >= 0 && !text.empty()) {
    written = ::write(descriptor_, text.data(), text.size());
    if (written > 0) text.remove_prefix(written);
  }
  if (written >= 0) return;
  const int why = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  throw_error(ErrorCode::kResourceExhausted, "cannot create a file in memory: {}",
              std::strerror(why));
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::string MemoryFile::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_);
}

}  // namespace weft
