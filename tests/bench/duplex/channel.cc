#include "tests/bench/duplex/channel.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/base/error.h"

namespace weft::bench {

void write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put <= 0)
      throw_error(ErrorCode::kUnavailable, "the other side does not listen any more: {}",
                  std::strerror(errno));
    bytes = bytes.subspan(put);
  }
}

void read_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got <= 0)
      throw_error(ErrorCode::kUnavailable, "the other side has ended; see what it wrote to stderr");
    bytes = bytes.subspan(got);
  }
}

void Channel::send(std::span<const std::byte> bytes) const {
  const std::uint64_t size = bytes.size();
  write_all(fd_, std::as_bytes(std::span(&size, 1)));
  write_all(fd_, bytes);
}

std::vector<std::byte> Channel::receive() const {
  std::uint64_t size = 0;
  read_all(fd_, std::as_writable_bytes(std::span(&size, 1)));
  std::vector<std::byte> bytes(size);
  read_all(fd_, bytes);
  return bytes;
}

std::vector<std::byte> Channel::exchange(std::span<const std::byte> own) const {
  send(own);
  return receive();
}

std::vector<std::int64_t> Channel::exchange(const std::vector<std::int64_t>& own) const {
  const std::vector<std::byte> bytes = exchange(std::as_bytes(std::span(own)));
  std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::int64_t Channel::common_start() const {
  constexpr auto kSoon = std::chrono::milliseconds(20);
  const std::int64_t own = (std::chrono::steady_clock::now() + kSoon).time_since_epoch().count();
  return std::max(own, exchange(std::vector{own}).front());
}

}  // namespace weft::bench
