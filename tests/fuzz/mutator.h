#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/philox.h"

namespace weft::test {

/// Damages bytes in ways that reveal bugs in readers: flips bits, writes extreme numbers in place
/// of lengths, and removes, doubles or moves pieces. Equal seeds give equal damage. Not
/// thread-safe.
class Mutator final {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }

  /// Returns `bytes` with one to four damages.
  std::vector<std::byte> damage(std::span<const std::byte> bytes) {
    std::vector<std::byte> out(bytes.begin(), bytes.end());
    for (std::uint64_t count = 1 + below(4); count > 0; --count) damage_once(out);
    return out;
  }

  std::string damage(const std::string& text) {
    const auto out = damage(std::as_bytes(std::span(text)));
    return {reinterpret_cast<const char*>(out.data()), out.size()};
  }

 private:
  void damage_once(std::vector<std::byte>& bytes) {
    if (bytes.empty()) {
      bytes.assign(below(32), std::byte(below(256)));
      return;
    }
    const std::size_t at = below(bytes.size());
    const std::size_t length =
        std::min<std::size_t>(1 + below(below(4) == 0 ? 64 : 8), bytes.size() - at);
    const auto begin = bytes.begin() + at;
    const auto end = begin + length;
    switch (below(7)) {
      case 0: bytes[at] ^= std::byte(1u << below(8)); break;
      case 1: bytes[at] = std::byte(below(256)); break;
      case 2: write_extreme(bytes, at); break;
      case 3: bytes.resize(at); break;
      case 4: bytes.erase(begin, end); break;
      case 5: {
        const std::vector<std::byte> piece(begin, end);
        bytes.insert(bytes.begin() + below(bytes.size() + 1), piece.begin(), piece.end());
        break;
      }
      default: std::generate(begin, end, [this] { return std::byte(below(256)); }); break;
    }
  }

  /// Writes a number at a limit of 4-byte or 8-byte integers, cut at the end of `bytes`.
  void write_extreme(std::vector<std::byte>& bytes, std::size_t at) {
    static constexpr std::array<std::uint64_t, 8> kExtremes = {0,
                                                               1,
                                                               0x7fffffff,
                                                               0x80000000,
                                                               0xffffffff,
                                                               0x7fffffffffffffff,
                                                               0x8000000000000000,
                                                               ~std::uint64_t{0}};
    const std::uint64_t value = kExtremes[below(kExtremes.size())];
    const std::size_t width = below(2) == 0 ? 4 : 8;
    std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
  }

  PhiloxStream random_;
};

}  // namespace weft::test
