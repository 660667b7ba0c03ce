#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "transfer/flow/flow.h"

namespace weft::transfer {

/// Set of the chunks of one flow that have landed at one device. A value that is sent to the
/// planner of a repair.
struct LandedChunks {
  FlowId flow;
  std::uint32_t num_chunks = 0;
  std::vector<std::uint64_t> words;  ///< Bitmap: chunk c is bit c % 64 of word c / 64.

  static LandedChunks none(FlowId flow, std::uint32_t num_chunks) {
    return {flow, num_chunks, std::vector<std::uint64_t>((num_chunks + 63) / 64)};
  }
  void set(std::uint32_t chunk) { words.at(chunk / 64) |= std::uint64_t{1} << chunk % 64; }
  bool has(std::uint32_t chunk) const { return (words.at(chunk / 64) >> chunk % 64 & 1) != 0; }
  std::uint32_t count() const {
    std::uint32_t sum = 0;
    for (const std::uint64_t word : words) sum += std::popcount(word);
    return sum;
  }
  bool complete() const { return count() == num_chunks; }

  friend bool operator==(const LandedChunks&, const LandedChunks&) = default;
  static constexpr auto fields =
      weft::fields(&LandedChunks::flow, &LandedChunks::num_chunks, &LandedChunks::words);
};

}  // namespace weft::transfer
