#pragma once

#include <array>
#include <cstdint>

namespace weft {

/// Returns four random words for a (key, counter) pair by Philox-4x32-10, without state (Salmon et
/// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 4).
///
/// Element i of a random tensor depends on (seed, tensor, i) only, so each device fills just its
/// own shard.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high = 0);

/// Returns a number in [0, 1) made from the upper 24 bits of `word`.
float uniform_float(std::uint32_t word);

/// Stream of 64-bit random words, equal on every machine. A UniformRandomBitGenerator.
class PhiloxStream {
 public:
  using result_type = std::uint64_t;
  explicit PhiloxStream(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();

  /// Returns an unbiased number in [0, bound). `bound` must not be 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
};

/// Returns the 64-bit FNV-1a hash of a name. Used as the key of its random numbers.
constexpr std::uint64_t fnv1a(const char* text, std::size_t size,
                              std::uint64_t hash = 14695981039346656037ull) {
  for (std::size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
  return hash;
}

}  // namespace weft
