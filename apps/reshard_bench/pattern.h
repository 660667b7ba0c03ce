#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/tensor/region.h"
#include "core/tensor/shape.h"

namespace weft::apps {

/// What stands at each place of a benchmark's tensors: 32-bit words that are a function of the tensor, the element's place in the
/// whole tensor and the repetition, so that a byte that is missing, misplaced, stale or of another tensor shows.
struct Pattern {
  std::uint32_t tensor = 0;
  std::uint32_t repetition = 0;

  /// Of the element with this row-major index in the whole tensor.
  std::uint32_t word(std::uint64_t index) const {
    return (static_cast<std::uint32_t>(index) + tensor * 0x632be5abu + repetition * 0x85157af5u) * 0x9e3779b1u;
  }
};

/// Writes `region` of a tensor of `shape`, as a dense row-major box. Elements are 4 bytes.
void fill_pattern(const Pattern& pattern, const Shape& shape, const Region& region, std::span<std::byte> box);

/// The first element of the box that differs from the pattern, for a person; nothing when all is right.
std::optional<std::string> find_difference(const Pattern& pattern, const Shape& shape, const Region& region,
                                           std::span<const std::byte> box);

}  // namespace weft::apps
