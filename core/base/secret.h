#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// Shared secret of 256 random bits: the token of a cluster, or the key of a mesh group's data
/// connections.
///
/// Never passed as an argument or environment variable and never logged; deliberately not
/// printable.
class Secret final {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::byte, kBytes>;

  /// Creates an empty secret, which authenticates nothing.
  Secret() = default;
  explicit Secret(const Bytes& bytes) : bytes_(bytes) {}
  /// Returns a new secret from the system's random number generator.
  static Secret random();
  /// Parses 64 hexadecimal digits that are not all 0. Otherwise throws Error(kInvalidArgument),
  /// whose message does not quote the text.
  static Secret parse(std::string_view hexadecimal);

  bool empty() const { return bytes_ == Bytes{}; }
  const Bytes& bytes() const { return bytes_; }
  /// Returns the 64 digits, for the file that stores the secret.
  std::string hexadecimal() const;

  friend bool operator==(const Secret&, const Secret&) = delete;

 private:
  Bytes bytes_{};
};

/// Returns true if length and content are equal. The time does not depend on where they differ.
bool equal_in_constant_time(std::span<const std::byte> one, std::span<const std::byte> other);

}  // namespace weft
