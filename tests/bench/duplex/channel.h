#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::bench {

/// Control channel of the two sides: a socket that does not use the measured link. Blocking.
/// Owner's thread only.
class Channel final {
 public:
  explicit Channel(int fd) : fd_(fd) {}

  void send(std::span<const std::byte> bytes) const;
  std::vector<std::byte> receive() const;
  /// Sends `own` and returns the other side's data.
  std::vector<std::byte> exchange(std::span<const std::byte> own) const;
  std::vector<std::int64_t> exchange(const std::vector<std::int64_t>& own) const;
  /// Returns the same future instant on both sides, in nanoseconds of the steady clock, which hosts
  /// of one machine share.
  std::int64_t common_start() const;

 private:
  int fd_;
};

/// Write or read all of `bytes`. Throw Error(kUnavailable) otherwise.
void write_all(int fd, std::span<const std::byte> bytes);
void read_all(int fd, std::span<std::byte> bytes);

}  // namespace weft::bench
