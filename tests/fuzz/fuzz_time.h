#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace weft::test {

/// Duration of a fuzz test: `rounds` rounds, or WEFT_FUZZ_SECONDS seconds if that is set. The seed
/// is WEFT_FUZZ_SEED.
class FuzzTime final {
 public:
  explicit FuzzTime(std::uint64_t rounds)
      : rounds_(rounds), seconds_(number("WEFT_FUZZ_SECONDS")), seed_(number("WEFT_FUZZ_SEED")) {}

  std::uint64_t seed() const { return seed_; }
  bool more() {
    ++round_;
    if (seconds_ == 0) return round_ <= rounds_;
    return std::chrono::steady_clock::now() - begin_ < std::chrono::seconds(seconds_);
  }
  std::uint64_t round() const { return round_; }

 private:
  static std::uint64_t number(const char* variable) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::uint64_t rounds_, seconds_, seed_;
  std::uint64_t round_ = 0;
};

}  // namespace weft::test
