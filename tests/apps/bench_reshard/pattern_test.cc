#include "apps/bench_reshard/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace weft::apps {
namespace {

const TensorType kType = {DType::kF32, {5, 3, 7}};
const Region kBox({{1, 4}, {0, 2}, {2, 7}});

std::vector<std::byte> filled(const Pattern& pattern, const TensorType& type = kType) {
  std::vector<std::byte> box(size_of(type.dtype) * kBox.num_elements());
  fill_pattern(pattern, type, kBox, box);
  return box;
}

TEST(Pattern, ABoxHasTheWordsOfItsPlacesInTheWholeTensor) {
  const Pattern pattern{2, 9};
  const auto box = filled(pattern);
  // Element [3, 1, 4] is word ((3 * 3) + 1) * 7 + 4 of the tensor, and word ((2 * 2) + 1) * 5 + 2
  // of the box.
  std::uint32_t word = 0;
  std::memcpy(&word, box.data() + 4 * (5 * 5 + 2), 4);
  EXPECT_EQ(word, pattern.word<std::uint32_t>(10 * 7 + 4));
  EXPECT_FALSE(find_difference(pattern, kType, kBox, box).has_value());
}

TEST(Pattern, OneWrongByteIsFoundWhateverTheElement) {
  const Pattern pattern{0, 1};
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

TEST(Pattern, AnotherRepetitionTensorOrPlaceDiffers) {
  const auto box = filled({1, 1});
  EXPECT_TRUE(find_difference({1, 2}, kType, kBox, box).has_value());
  EXPECT_TRUE(find_difference({2, 1}, kType, kBox, box).has_value());
  EXPECT_THAT(*find_difference({1, 1}, kType, Region({{0, 3}, {0, 2}, {2, 7}}), box),
              ::testing::HasSubstr("tensor 1: element 2 is "));
}

}  // namespace
}  // namespace weft::apps
