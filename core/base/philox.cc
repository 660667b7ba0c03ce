#include "core/base/philox.h"

namespace weft {

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::array<std::uint32_t, 4> c = {
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

float uniform_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24f; }

PhiloxStream::result_type PhiloxStream::operator()() {
  const auto words = philox(seed_, counter_++, stream_);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

std::uint64_t PhiloxStream::below(std::uint64_t bound) {
  const std::uint64_t limit = max() - max() % bound;
  std::uint64_t word = (*this)();
  while (word >= limit) word = (*this)();
  return word % bound;
}

}  // namespace weft
