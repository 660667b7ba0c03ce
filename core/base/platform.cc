#include "core/base/platform.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/error.h"

namespace weft {

TimePoint SteadyClock::now() const {
  if (Platform* platform = Platform::simulated()) return platform->now();
  return std::chrono::time_point_cast<Nanoseconds>(std::chrono::steady_clock::now());
}

int process_id() {
  if (Platform* platform = Platform::simulated()) return platform->process_id();
  return ::getpid();
}

void end_process(int status) {
  if (Platform* platform = Platform::simulated()) platform->end_process(status);
  ::_exit(status);
}

void fill_with_random(std::span<std::byte> bytes) {
  if (Platform* platform = Platform::simulated()) return platform->fill_with_random(bytes);
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got > 0) bytes = bytes.subspan(got);
    else if (errno != EINTR) throw_error(ErrorCode::kInternal, "getrandom: {}", ::strerror(errno));
  }
}

}  // namespace weft
