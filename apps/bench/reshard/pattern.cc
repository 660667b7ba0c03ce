#include "apps/bench/reshard/pattern.h"

#include <fmt/format.h>

#include <bit>
#include <vector>

#include "core/base/check.h"

namespace weft::apps {
namespace {

/// Calls body(index of the row's first element in the whole tensor, its first word in the box,
/// number of words) for each row of the box, until `body` returns false.
template <typename Body>
void for_each_row(const Shape& shape, const Region& region, Body&& body) {
  const std::size_t rank = region.rank();
  const auto row = rank == 0 ? std::size_t{1} : static_cast<std::size_t>(region[rank - 1].size());
  std::vector<std::int64_t> at(rank);
  for (std::size_t d = 0; d < rank; ++d) at[d] = region[d].begin;
  for (std::size_t place = 0; place < static_cast<std::size_t>(region.num_elements());
       place += row) {
    std::uint64_t index = 0;
    for (std::size_t d = 0; d < rank; ++d) index = index * shape[d] + at[d];
    if (!body(index, place, row)) return;
    for (std::size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) {
      if (++at[d] < region[d].end) break;
      at[d] = region[d].begin;
    }
  }
}

template <typename Word>
void fill(const TestPattern& pattern, const Shape& shape, const Region& region,
          std::span<std::byte> box) {
  auto* words = reinterpret_cast<Word*>(box.data());
  for_each_row(shape, region, [&](std::uint64_t index, std::size_t place, std::size_t row) {
    for (std::size_t i = 0; i < row; ++i) words[place + i] = pattern.word<Word>(index + i);
    return true;
  });
}

template <typename Word>
std::optional<std::string> difference(const TestPattern& pattern, const Shape& shape,
                                      const Region& region, std::span<const std::byte> box) {
  const auto* words = reinterpret_cast<const Word*>(box.data());
  std::optional<std::string> found;
  for_each_row(shape, region, [&](std::uint64_t index, std::size_t place, std::size_t row) {
    Word differ = 0;
    for (std::size_t i = 0; i < row; ++i)
      differ = static_cast<Word>(differ | (words[place + i] ^ pattern.word<Word>(index + i)));
    if (differ == 0) return true;
    std::size_t i = 0;
    while (words[place + i] == pattern.word<Word>(index + i)) ++i;
    found = fmt::format("tensor {}: element {} is {:#x} and should be {:#x}", pattern.tensor,
                        index + i, words[place + i], pattern.word<Word>(index + i));
    return false;
  });
  return found;
}

/// Returns an element of a term: a random 32-bit integer / 65536, rounded to f32.
float number(const TestPattern& pattern, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int32_t>(pattern.word<std::uint32_t>(index))) / 65536;
}

/// Calls `body` with a word of the element's size.
template <typename Body>
auto for_size(DType dtype, Body&& body) {
  switch (size_of(dtype)) {
    case 1: return body(std::uint8_t{});
    case 2: return body(std::uint16_t{});
    case 4: return body(std::uint32_t{});
    default: return body(std::uint64_t{});
  }
}

}  // namespace

void fill_pattern(const TestPattern& pattern, const TensorType& type, const Region& region,
                  std::span<std::byte> box) {
  WEFT_CHECK(box.size() == size_of(type.dtype) * static_cast<std::size_t>(region.num_elements()),
             "{} bytes for {} elements", box.size(), region.num_elements());
  for_size(type.dtype, [&](auto word) { fill<decltype(word)>(pattern, type.shape, region, box); });
}

std::optional<std::string> find_difference(const TestPattern& pattern, const TensorType& type,
                                           const Region& region, std::span<const std::byte> box) {
  return for_size(type.dtype, [&](auto word) {
    return difference<decltype(word)>(pattern, type.shape, region, box);
  });
}

void fill_term(const TestPattern& pattern, const TensorType& type, const Region& region,
               std::span<std::byte> box) {
  WEFT_CHECK(type.dtype == DType::kF32 &&
                 box.size() == 4 * static_cast<std::size_t>(region.num_elements()),
             "{} bytes for {} elements", box.size(), region.num_elements());
  auto* numbers = reinterpret_cast<float*>(box.data());
  for_each_row(type.shape, region, [&](std::uint64_t index, std::size_t place, std::size_t row) {
    for (std::size_t i = 0; i < row; ++i) numbers[place + i] = number(pattern, index + i);
    return true;
  });
}

std::optional<std::string> find_wrong_sum(const TestPattern& pattern, std::uint32_t num_terms,
                                          const TensorType& type, const Region& region,
                                          std::span<const std::byte> box) {
  const auto* numbers = reinterpret_cast<const float*>(box.data());
  std::vector<TestPattern> terms(num_terms, pattern);
  for (std::uint32_t term = 0; term < num_terms; ++term) terms[term].term = term;
  std::optional<std::string> found;
  for_each_row(type.shape, region, [&](std::uint64_t index, std::size_t place, std::size_t row) {
    for (std::size_t i = 0; i < row; ++i) {
      float sum = number(terms[0], index + i);
      for (std::uint32_t term = 1; term < num_terms; ++term) sum += number(terms[term], index + i);
      if (std::bit_cast<std::uint32_t>(sum) == std::bit_cast<std::uint32_t>(numbers[place + i]))
        continue;
      found = fmt::format("tensor {}: element {} is {} and should be {}", pattern.tensor, index + i,
                          numbers[place + i], sum);
      return false;
    }
    return true;
  });
  return found;
}

}  // namespace weft::apps
