#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/tensor/region.h"
#include "core/tensor/shape.h"

namespace weft::apps {

/// Test content of tensors: words of an element's size that depend on the tensor, the element's
/// index in the whole tensor and the repetition. Missing, misplaced, stale or foreign bytes are
/// detected.
struct TestPattern {
  std::uint32_t tensor = 0;
  std::uint32_t repetition = 0;
  std::uint32_t term = 0;  ///< Index of the term in a sum.

  /// Returns the word of the element with this row-major index in the whole tensor. `Word` is the
  /// unsigned type of the element's size.
  template <typename Word>
  Word word(std::uint64_t index) const {
    const std::uint64_t mixed = (index + tensor * 0xd1342543de82ef95u +
                                 repetition * 0xda942042e4dd58b5u + term * 0xc2b2ae3d27d4eb4fu) *
                                0x9e3779b97f4a7c15u;
    return static_cast<Word>(mixed >> (64 - 8 * sizeof(Word)));
  }
};

/// Fills `box`, dense and row-major, with `region` of a tensor.
void fill_pattern(const TestPattern& pattern, const TensorType& type, const Region& region,
                  std::span<std::byte> box);

/// Fills `box` with `region` of one term of an f32 sum. The sum depends on the order of addition.
void fill_term(const TestPattern& pattern, const TensorType& type, const Region& region,
               std::span<std::byte> box);

/// Describes the first element of the box that differs from the pattern; nullopt if there is none.
std::optional<std::string> find_difference(const TestPattern& pattern, const TensorType& type,
                                           const Region& region, std::span<const std::byte> box);

/// Describes the first element that differs from the sum of the pattern's terms 0, 1, ..., as
/// fill_term() writes them, added in this order.
std::optional<std::string> find_wrong_sum(const TestPattern& pattern, std::uint32_t num_terms,
                                          const TensorType& type, const Region& region,
                                          std::span<const std::byte> box);

}  // namespace weft::apps
