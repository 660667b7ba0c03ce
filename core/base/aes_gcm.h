#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace weft {

/// AES-256-GCM (NIST SP 800-38D) with one key: encrypts, and proves that nothing was changed.
///
/// A resource: the key is wiped when it is destroyed. One thread at a time. Uses the processor's
/// AES instructions where it has them.
class AesGcm final {
 public:
  using Key = std::array<std::byte, 32>;
  /// Never the same twice with one key.
  using Nonce = std::array<std::byte, 12>;
  using Tag = std::array<std::byte, 16>;

  explicit AesGcm(const Key& key);
  ~AesGcm();
  AesGcm(AesGcm&&) noexcept;
  AesGcm& operator=(AesGcm&&) noexcept;

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
