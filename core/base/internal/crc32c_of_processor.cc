// Uses the SSE 4.2 instruction for this polynomial. It has a latency of three cycles and a
// throughput of one per cycle, so three runs of bytes are processed in parallel. A run's CRC is
// appended to another by advancing the first over as many zero bytes as the later runs have.
#include "core/base/internal/crc32c_variants.h"

#if defined(__x86_64__)

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace weft {
namespace {

constexpr std::size_t kRunBytes = 4096;

/// Returns tables that advance a CRC state over kRunBytes zeros. The state is linear in its bits,
/// so one table for each of its bytes suffices.
std::array<std::array<std::uint32_t, 256>, 4> make_zeros() {
  std::array<std::uint32_t, 32> of_bit{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t state = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kRunBytes * 8; ++i)
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78 : 0);
    of_bit[bit] = state;
  }
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::size_t value = 0; value < 256; ++value) {
      for (std::size_t bit = 0; bit < 8; ++bit)
        tables[byte][value] ^= (value >> bit & 1) != 0 ? of_bit[8 * byte + bit] : 0;
    }
  }
  return tables;
}

std::uint32_t advance_over_zeros(std::uint32_t state) {
  static const auto kZeros = make_zeros();
  return kZeros[0][state & 0xff] ^ kZeros[1][state >> 8 & 0xff] ^ kZeros[2][state >> 16 & 0xff] ^
         kZeros[3][state >> 24];
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes) {
  std::uint64_t crc = ~std::uint32_t{0};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * kRunBytes; left -= 3 * kRunBytes, at += 3 * kRunBytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kRunBytes; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kRunBytes + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kRunBytes + i));
    }
    crc = advance_over_zeros(static_cast<std::uint32_t>(crc)) ^ second;
    crc = advance_over_zeros(static_cast<std::uint32_t>(crc)) ^ third;
  }
  for (; left >= 8; left -= 8, at += 8) crc = _mm_crc32_u64(crc, word_at(at));
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*at));
  return ~rest;
}

}  // namespace

Crc32c crc32c_of_processor() {
  return __builtin_cpu_supports("sse4.2") != 0 ? &by_instruction : nullptr;
}

}  // namespace weft

#else

namespace weft {

Crc32c crc32c_of_processor() { return nullptr; }

}  // namespace weft

#endif
