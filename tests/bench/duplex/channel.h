#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::bench {

/// Both sides' way to agree: a socket that is not on the measured link. Blocking. Owner's thread
/// only.
class Channel final {
 public:
  explicit Channel(int fd) : fd_(fd) {}

  void send(std::span<const std::byte> bytes) const;
  std::vector<std::byte> receive() const;
  /// What the other side gives in exchange for `own`.
  std::vector<std::byte> exchange(std::span<const std::byte> own) const;
  std::vector<std::int64_t> exchange(const std::vector<std::int64_t>& own) const;
  /// The same instant on both sides, a moment from now: nanoseconds of the steady clock, which the
  /// hosts of one machine share.
  std::int64_t common_start() const;

 private:
  int fd_;
};

/// The whole of it, or Error(kUnavailable).
void write_all(int fd, std::span<const std::byte> bytes);
void read_all(int fd, std::span<std::byte> bytes);

}  // namespace weft::bench
