// AES by OpenSSL's functions of this one algorithm. Its EVP functions bring 5 MiB of library along.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/aes.h>

#include <array>
#include <cstring>

#include "core/base/check.h"
#include "core/base/internal/aes_variants.h"

namespace weft {
namespace {

void expand(const unsigned char key[32], AesRoundKeys& into) {
  static_assert(sizeof(AES_KEY) <= sizeof(into.bytes));
  AES_KEY made{};
  WEFT_CHECK(AES_set_encrypt_key(key, 256, &made) == 0);
  std::memcpy(into.bytes.data(), &made, sizeof made);
}

void encrypt(const unsigned char in[16], unsigned char out[16], const void* round_keys) {
  AES_encrypt(in, out, static_cast<const AES_KEY*>(round_keys));
}

void count(const unsigned char* in, unsigned char* out, std::size_t blocks, const void* round_keys,
           const unsigned char first[16]) {
  std::array<unsigned char, 16> counter{}, stream{};
  std::memcpy(counter.data(), first, counter.size());
  for (; blocks > 0; --blocks, in += 16, out += 16) {
    encrypt(counter.data(), stream.data(), round_keys);
    for (std::size_t i = 0; i < stream.size(); ++i) out[i] = in[i] ^ stream[i];
    for (std::size_t i = counter.size(); i > 12 && ++counter[i - 1] == 0;) --i;
  }
}

constexpr Aes kByTable{expand, encrypt, count};

}  // namespace

const Aes& aes_by_table() { return kByTable; }

}  // namespace weft
