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
  if (descriptor_ >= 0 && ::write(descriptor_, text.data(), text.size()) == std::ssize(text))
    return;
  const int why = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  throw_error(ErrorCode::kResourceExhausted, "cannot make a file in memory: {}",
              std::strerror(why));
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::string MemoryFile::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_);
}

}  // namespace weft
