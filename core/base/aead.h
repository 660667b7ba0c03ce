#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace weft {

/// Authenticated encryption with one key: hides bytes, and proves that nothing was changed.
///
/// A resource: wipes its key when it is destroyed. One thread at a time. Done by libsodium.
class Aead final {
 public:
  enum class Cipher : std::uint8_t {
    kAes256Gcm,         ///< NIST SP 800-38D. Needs a processor with AES instructions: has_aes().
    kChaCha20Poly1305,  ///< RFC 8439. Any processor; three times as slow for short messages.
  };
  using Key = std::array<std::byte, 32>;
  /// Never the same twice with one key.
  using Nonce = std::array<std::byte, 12>;
  using Tag = std::array<std::byte, 16>;

  /// Whether this processor can do kAes256Gcm.
  static bool has_aes();
  /// Cipher of two processes, from what has_aes() says on each side.
  static Cipher choose(bool one_has_aes, bool other_has_aes);

  Aead(Cipher cipher, const Key& key);
  ~Aead();
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;

  /// Writes the encrypted `plain`, of the same size, to `out`, which may be where it lies. The tag
  /// covers `header`, which travels as it is, too.
  Tag seal(const Nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> plain,
           std::byte* out);
  /// Undoes seal(). False if nonce, header, bytes or tag differ from what was sealed: then what
  /// `out` has is worth nothing.
  bool open(const Nonce& nonce, std::span<const std::byte> header,
            std::span<const std::byte> sealed, const Tag& tag, std::byte* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
