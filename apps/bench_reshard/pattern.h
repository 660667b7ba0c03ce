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
  std::uint32_t term = 0;  ///< Of a sum.

  /// Of the element with this row-major index in the whole tensor; Word is the unsigned type of the
  /// element's size.
  template <typename Word>
  Word word(std::uint64_t index) const {
    const std::uint64_t mixed = (index + tensor * 0xd1342543de82ef95u +
                                 repetition * 0xda942042e4dd58b5u + term * 0xc2b2ae3d27d4eb4fu) *
                                0x9e3779b97f4a7c15u;
    return static_cast<Word>(mixed >> (64 - 8 * sizeof(Word)));
  }
};

/// Writes `region` of a tensor, as a dense row-major box.
void fill_pattern(const Pattern& pattern, const TensorType& type, const Region& region,
                  std::span<std::byte> box);

/// Writes `region` of one term of an f32 sum: numbers whose sum depends on the order.
void fill_term(const Pattern& pattern, const TensorType& type, const Region& region,
               std::span<std::byte> box);

/// The first element of the box that differs from the pattern, for a person; nothing when all is
/// right.
std::optional<std::string> find_difference(const Pattern& pattern, const TensorType& type,
                                           const Region& region, std::span<const std::byte> box);

/// The same for the sum of that pattern's terms 0, 1, ..., each as fill_term() writes it, added in
/// this order.
std::optional<std::string> find_wrong_sum(const Pattern& pattern, std::uint32_t num_terms,
                                          const TensorType& type, const Region& region,
                                          std::span<const std::byte> box);

}  // namespace weft::apps
