#include "core/base/aes_gcm.h"

#include <openssl/crypto.h>
#include <openssl/modes.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/internal/aes_variants.h"
#include "core/base/secret.h"

namespace weft {
namespace {

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

const Aes& fastest_aes() {
  static const Aes* const chosen =
      aes_of_processor() != nullptr ? aes_of_processor() : &aes_by_table();
  return *chosen;
}

}  // namespace

struct AesGcm::Impl {
  explicit Impl(const Key& key) : aes(fastest_aes()) {
    aes.expand(raw(key.data()), round_keys);
    gcm = CRYPTO_gcm128_new(&round_keys, aes.encrypt);
    WEFT_CHECK(gcm != nullptr);
  }
  ~Impl() {
    CRYPTO_gcm128_release(gcm);
    OPENSSL_cleanse(&round_keys, sizeof round_keys);
  }
  Impl(const Impl&) = delete;

  void begin(const Nonce& nonce, std::span<const std::byte> header) {
    CRYPTO_gcm128_setiv(gcm, raw(nonce.data()), nonce.size());
    WEFT_CHECK(CRYPTO_gcm128_aad(gcm, raw(header.data()), header.size()) == 0);
  }
  Tag tag() {
    Tag tag{};
    CRYPTO_gcm128_tag(gcm, raw(tag.data()), tag.size());
    return tag;
  }

  const Aes& aes;
  AesRoundKeys round_keys;
  GCM128_CONTEXT* gcm = nullptr;  // points to round_keys
};

AesGcm::AesGcm(const Key& key) : impl_(std::make_unique<Impl>(key)) {}
AesGcm::~AesGcm() = default;
AesGcm::AesGcm(AesGcm&&) noexcept = default;
AesGcm& AesGcm::operator=(AesGcm&&) noexcept = default;

AesGcm::Tag AesGcm::seal(const Nonce& nonce, std::span<const std::byte> header,
                         std::span<const std::byte> plain, std::byte* out) {
  impl_->begin(nonce, header);
  WEFT_CHECK(CRYPTO_gcm128_encrypt_ctr32(impl_->gcm, raw(plain.data()), raw(out), plain.size(),
                                         impl_->aes.count) == 0);
  return impl_->tag();
}

bool AesGcm::open(const Nonce& nonce, std::span<const std::byte> header,
                  std::span<const std::byte> sealed, const Tag& tag, std::byte* out) {
  impl_->begin(nonce, header);
  WEFT_CHECK(CRYPTO_gcm128_decrypt_ctr32(impl_->gcm, raw(sealed.data()), raw(out), sealed.size(),
                                         impl_->aes.count) == 0);
  return equal_in_constant_time(impl_->tag(), tag);
}

}  // namespace weft
