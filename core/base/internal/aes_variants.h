#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

/// The round keys of one key, as the variant that made them wants them.
struct alignas(16) AesRoundKeys {
  std::array<unsigned char, 256> bytes{};
};

/// AES-256 in the forms that OpenSSL's GCM asks for (<openssl/modes.h>: block128_f, ctr128_f).
struct Aes {
  void (*expand)(const unsigned char key[32], AesRoundKeys& into);
  void (*encrypt)(const unsigned char in[16], unsigned char out[16], const void* round_keys);
  /// Adds the key stream of `blocks` counters from `first` on to `in`. The counter is the last four
  /// bytes, most significant first.
  void (*count)(const unsigned char* in, unsigned char* out, std::size_t blocks,
                const void* round_keys, const unsigned char first[16]);
};

const Aes& aes_by_table();
/// AES by the processor's own instructions; nullptr where this processor has none.
const Aes* aes_of_processor();

}  // namespace weft
