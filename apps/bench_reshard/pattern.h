#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/tensor/region.h"
#include "core/tensor/shape.h"

namespace weft::apps {

/// What stands at each place of a benchmark's tensors: words of an element's size that are a
/// function of the tensor, the element's place in the whole tensor and the repetition, so that a
/// byte that is missing, misplaced, stale or of another tensor shows.
struct Pattern {
  std::uint32_t tensor = 0;
  std::uint32_t repetition = 0;

  /// Of the element with this row-major index in the whole tensor; Word is the unsigned type of the
  /// element's size.
  template <typename Word>
  Word word(std::uint64_t index) const {
    const std::uint64_t mixed =
        (index + tensor * 0xd1342543de82ef95u + repetition * 0xda942042e4dd58b5u) *
        0x9e3779b97f4a7c15u;
    return static_cast<Word>(mixed >> (64 - 8 * sizeof(Word)));
  }
};

/// Writes `region` of a tensor, as a dense row-major box.
void fill_pattern(const Pattern& pattern, const TensorType& type, const Region& region,
                  std::span<std::byte> box);

/// The first element of the box that differs from the pattern, for a person; nothing when all is
/// right.
std::optional<std::string> find_difference(const Pattern& pattern, const TensorType& type,
                                           const Region& region, std::span<const std::byte> box);

}  // namespace weft::apps
