#include "apps/bench/reshard/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft::apps {
namespace {

const TensorType kType = {DType::kF32, {5, 3, 7}};
const Region kBox({{1, 4}, {0, 2}, {2, 7}});

std::vector<std::byte> filled(const TestPattern& pattern, const TensorType& type = kType) {
  std::vector<std::byte> box(size_of(type.dtype) * kBox.num_elements());
  fill_pattern(pattern, type, kBox, box);
  return box;
}

TEST(TestPattern, ABoxHasTheWordsOfItsPlacesInTheWholeTensor) {
  const TestPattern pattern{2, 9};
  const auto box = filled(pattern);
  // Element [3, 1, 4] is word ((3 * 3) + 1) * 7 + 4 of the tensor, and word ((2 * 2) + 1) * 5 + 2
  // of the box.
  std::uint32_t word = 0;
  std::memcpy(&word, box.data() + 4 * (5 * 5 + 2), 4);
  EXPECT_EQ(word, pattern.word<std::uint32_t>(10 * 7 + 4));
  EXPECT_FALSE(find_difference(pattern, kType, kBox, box).has_value());
}

TEST(TestPattern, OneWrongByteIsFoundWhateverTheElement) {
  const TestPattern pattern{0, 1};
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kBF16, DType::kF64}) {
    const TensorType type{dtype, kType.shape};
    const auto right = filled(pattern, type);
    EXPECT_FALSE(find_difference(pattern, type, kBox, right).has_value());
    for (std::size_t wrong = 0; wrong < right.size(); ++wrong) {
      auto box = right;
      box[wrong] ^= std::byte{0x10};
      EXPECT_TRUE(find_difference(pattern, type, kBox, box).has_value())
          << to_string(dtype) << " byte " << wrong;
    }
  }
}

TEST(TestPattern, ASumOfTermsIsThatInTheirOrderAndNoOther) {
  const TensorType type{DType::kF32, kType.shape};
  const std::size_t count = static_cast<std::size_t>(kBox.num_elements());
  std::vector<std::vector<float>> terms(3, std::vector<float>(count));
  for (std::uint32_t term = 0; term < 3; ++term)
    fill_term({0, 1, term}, type, kBox, std::as_writable_bytes(std::span(terms[term])));
  const auto difference = [&](std::uint32_t num_terms, auto sum_of) {
    std::vector<float> sum(count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = sum_of(i);
    return find_wrong_sum({0, 1}, num_terms, type, kBox, std::as_bytes(std::span(sum)));
  };
  const auto left = [&](std::size_t i) { return (terms[0][i] + terms[1][i]) + terms[2][i]; };
  const auto right = [&](std::size_t i) { return terms[0][i] + (terms[1][i] + terms[2][i]); };
  EXPECT_FALSE(difference(3, left).has_value());
  EXPECT_TRUE(difference(3, right).has_value());
  EXPECT_TRUE(difference(2, left).has_value());
}

TEST(TestPattern, AnotherRepetitionTensorOrPlaceDiffers) {
  const auto box = filled({1, 1});
  EXPECT_TRUE(find_difference({1, 2}, kType, kBox, box).has_value());
  EXPECT_TRUE(find_difference({2, 1}, kType, kBox, box).has_value());
  EXPECT_THAT(*find_difference({1, 1}, kType, Region({{0, 3}, {0, 2}, {2, 7}}), box),
              ::testing::HasSubstr("tensor 1: element 2 is "));
}

}  // namespace
}  // namespace weft::apps
