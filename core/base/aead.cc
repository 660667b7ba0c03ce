#include "core/base/aead.h"

#include <sodium.h>

#include "core/base/check.h"

namespace weft {
namespace {

static_assert(crypto_aead_aes256gcm_KEYBYTES == std::tuple_size_v<Aead::Key> &&
              crypto_aead_aes256gcm_NPUBBYTES == std::tuple_size_v<Aead::Nonce> &&
              crypto_aead_aes256gcm_ABYTES == std::tuple_size_v<Aead::Tag>);
static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == std::tuple_size_v<Aead::Key> &&
              crypto_aead_chacha20poly1305_ietf_NPUBBYTES == std::tuple_size_v<Aead::Nonce> &&
              crypto_aead_chacha20poly1305_ietf_ABYTES == std::tuple_size_v<Aead::Tag>);

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

/// Initializes libsodium, which detects the processor's features. Only the first call has an
/// effect.
void prepare() {
  static const int prepared = ::sodium_init();
  WEFT_CHECK(prepared >= 0);
}

}  // namespace

struct Aead::Impl {
  Impl(Cipher chosen, const Key& given) : cipher(chosen), key(given) {
    prepare();
    if (cipher != Cipher::kAes256Gcm) return;
    WEFT_CHECK(has_aes(), "this processor has no AES instructions");
    ::crypto_aead_aes256gcm_beforenm(&aes, raw(key.data()));
  }
  ~Impl() {
    ::sodium_memzero(&aes, sizeof aes);
    ::sodium_memzero(key.data(), key.size());
  }
  Impl(const Impl&) = delete;

  crypto_aead_aes256gcm_state aes{};  // AES round keys; used by kAes256Gcm only
  const Cipher cipher;
  Key key;
};

bool Aead::has_aes() {
  prepare();
  return ::crypto_aead_aes256gcm_is_available() == 1;
}

Aead::Cipher Aead::choose(bool one_has_aes, bool other_has_aes) {
  return one_has_aes && other_has_aes ? Cipher::kAes256Gcm : Cipher::kChaCha20Poly1305;
}

Aead::Aead(Cipher cipher, const Key& key) : impl_(std::make_unique<Impl>(cipher, key)) {}
Aead::~Aead() = default;
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;

Aead::Tag Aead::seal(const Nonce& nonce, std::span<const std::byte> header,
                     std::span<const std::byte> plain, std::byte* out) {
  Tag tag{};
  unsigned long long tag_size = tag.size();
  std::byte nothing{};  // libsodium requires a non-null address even for zero bytes
  if (plain.empty()) out = &nothing;
  const int done =
      impl_->cipher == Cipher::kAes256Gcm
          ? ::crypto_aead_aes256gcm_encrypt_detached_afternm(
                raw(out), raw(tag.data()), &tag_size, raw(plain.data()), plain.size(),
                raw(header.data()), header.size(), nullptr, raw(nonce.data()), &impl_->aes)
          : ::crypto_aead_chacha20poly1305_ietf_encrypt_detached(
                raw(out), raw(tag.data()), &tag_size, raw(plain.data()), plain.size(),
                raw(header.data()), header.size(), nullptr, raw(nonce.data()),
                raw(impl_->key.data()));
  WEFT_CHECK(done == 0);
  return tag;
}

bool Aead::open(const Nonce& nonce, std::span<const std::byte> header,
                std::span<const std::byte> sealed, const Tag& tag, std::byte* out) {
  std::byte nothing{};
  if (sealed.empty()) sealed = {out = &nothing, 0};
  const int failed =
      impl_->cipher == Cipher::kAes256Gcm
          ? ::crypto_aead_aes256gcm_decrypt_detached_afternm(
                raw(out), nullptr, raw(sealed.data()), sealed.size(), raw(tag.data()),
                raw(header.data()), header.size(), raw(nonce.data()), &impl_->aes)
          : ::crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                raw(out), nullptr, raw(sealed.data()), sealed.size(), raw(tag.data()),
                raw(header.data()), header.size(), raw(nonce.data()), raw(impl_->key.data()));
  return failed == 0;
}

}  // namespace weft
