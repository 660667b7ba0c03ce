#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// 256 random bits that whoever belongs to something knows: a cluster's token, a mesh group's
/// secret of its data connections.
///
/// A value. Never an argument, an environment variable or part of a log line; it has no printer on
/// purpose.
class Secret final {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::byte, kBytes>;

  /// None: nobody can prove anything with it.
  Secret() = default;
  explicit Secret(const Bytes& bytes) : bytes_(bytes) {}
  /// From the system's random numbers.
  static Secret random();
  /// From 64 hexadecimal digits, not all 0. Throws Error(kInvalidArgument), without the text, for
  /// anything else.
  static Secret parse(std::string_view hexadecimal);

  bool empty() const { return bytes_ == Bytes{}; }
  const Bytes& bytes() const { return bytes_; }
  /// For the file that holds it.
  std::string hexadecimal() const;

  friend bool operator==(const Secret&, const Secret&) = delete;

 private:
  Bytes bytes_{};
};

/// The same length and content, in a time that does not depend on where they differ.
bool equal_in_constant_time(std::span<const std::byte> one, std::span<const std::byte> other);

}  // namespace weft
