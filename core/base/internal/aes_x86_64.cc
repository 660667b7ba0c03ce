// AES-NI does a round in one instruction of some four cycles, of which two begin in each cycle:
// eight counters are encrypted side by side.
#include <immintrin.h>

#include "core/base/internal/aes_variants.h"

#define WEFT_AES __attribute__((target("aes,sse4.1")))

namespace weft {
namespace {

constexpr int kRounds = 14;
constexpr std::size_t kSideBySide = 8;

WEFT_AES __m128i spread(__m128i key, __m128i word) {
  key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
  key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
  return _mm_xor_si128(key, word);
}

/// The next two round keys after `even` and `odd` (FIPS 197, 5.2).
template <int kConstant>
WEFT_AES void next_two(__m128i& even, __m128i& odd, __m128i* into) {
  even = spread(even, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(odd, kConstant), 0xff));
  into[0] = even;
  odd = spread(odd, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(even, 0), 0xaa));
  into[1] = odd;
}

WEFT_AES void expand(const unsigned char key[32], AesRoundKeys& into) {
  auto* const keys = reinterpret_cast<__m128i*>(into.bytes.data());
  __m128i even = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key));
  __m128i odd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key + 16));
  keys[0] = even;
  keys[1] = odd;
  next_two<0x01>(even, odd, keys + 2);
  next_two<0x02>(even, odd, keys + 4);
  next_two<0x04>(even, odd, keys + 6);
  next_two<0x08>(even, odd, keys + 8);
  next_two<0x10>(even, odd, keys + 10);
  next_two<0x20>(even, odd, keys + 12);
  keys[14] = spread(even, _mm_shuffle_epi32(_mm_aeskeygenassist_si128(odd, 0x40), 0xff));
}

template <std::size_t kBlocks>
WEFT_AES void encrypt_blocks(__m128i (&blocks)[kBlocks], const __m128i* keys) {
  for (__m128i& block : blocks) block = _mm_xor_si128(block, keys[0]);
  for (int round = 1; round < kRounds; ++round)
    for (__m128i& block : blocks) block = _mm_aesenc_si128(block, keys[round]);
  for (__m128i& block : blocks) block = _mm_aesenclast_si128(block, keys[kRounds]);
}

WEFT_AES void encrypt(const unsigned char in[16], unsigned char out[16], const void* round_keys) {
  __m128i block[] = {_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))};
  encrypt_blocks(block, static_cast<const __m128i*>(round_keys));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), block[0]);
}

template <std::size_t kBlocks>
WEFT_AES void count_blocks(const unsigned char* in, unsigned char* out, const __m128i* keys,
                           __m128i first, std::uint32_t counter) {
  __m128i blocks[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i)
    blocks[i] = _mm_insert_epi32(
        first, static_cast<int>(__builtin_bswap32(counter + static_cast<std::uint32_t>(i))), 3);
  encrypt_blocks(blocks, keys);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const __m128i plain = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in) + i);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out) + i, _mm_xor_si128(plain, blocks[i]));
  }
}

WEFT_AES void count(const unsigned char* in, unsigned char* out, std::size_t blocks,
                    const void* round_keys, const unsigned char first[16]) {
  const auto* const keys = static_cast<const __m128i*>(round_keys);
  const __m128i base = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
  auto counter = __builtin_bswap32(static_cast<std::uint32_t>(_mm_extract_epi32(base, 3)));
  for (; blocks >= kSideBySide; blocks -= kSideBySide) {
    count_blocks<kSideBySide>(in, out, keys, base, counter);
    counter += kSideBySide;
    in += 16 * kSideBySide;
    out += 16 * kSideBySide;
  }
  for (; blocks >= 4; blocks -= 4, counter += 4, in += 64, out += 64)
    count_blocks<4>(in, out, keys, base, counter);
  for (; blocks > 0; --blocks, ++counter, in += 16, out += 16)
    count_blocks<1>(in, out, keys, base, counter);
}

constexpr Aes kOfProcessor{expand, encrypt, count};

}  // namespace

const Aes* aes_of_processor() {
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("sse4.1") != 0 ? &kOfProcessor
                                                                                     : nullptr;
}

}  // namespace weft
