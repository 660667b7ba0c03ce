#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace weft {

/// Authenticated encryption with one key: hides bytes and detects any change to them.
///
/// Wipes its key on destruction. Not thread-safe. Implemented by libsodium.
class Aead final {
 public:
  enum class Cipher : std::uint8_t {
    kAes256Gcm,         ///< NIST SP 800-38D. Needs a processor with AES instructions (has_aes()).
    kChaCha20Poly1305,  ///< RFC 8439. Runs on any processor; three times slower for short messages.
  };
  using Key = std::array<std::byte, 32>;
  /// Number used once: a nonce must never repeat under one key.
  using Nonce = std::array<std::byte, 12>;
  using Tag = std::array<std::byte, 16>;

  /// Returns true if this processor supports kAes256Gcm.
  static bool has_aes();
  /// Returns the cipher that two processes use, given has_aes() of each.
  static Cipher choose(bool one_has_aes, bool other_has_aes);

  Aead(Cipher cipher, const Key& key);
  ~Aead();
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;

  /// Encrypts `plain` into `out`, which has the same size and may be the same memory. The returned
  /// tag authenticates `plain` and `header`; `header` itself is sent unencrypted.
  Tag seal(const Nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> plain,
           std::byte* out);
  /// Decrypts the output of seal(). Returns false if nonce, header, bytes or tag differ from the
  /// sealed ones; `out` is then unspecified.
  bool open(const Nonce& nonce, std::span<const std::byte> header,
            std::span<const std::byte> sealed, const Tag& tag, std::byte* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
