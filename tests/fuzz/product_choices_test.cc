#include <gtest/gtest.h>

#include "core/cuda/internal/product_choices.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/fuzz/mutator.h"

namespace weft::cuda {
namespace {

TEST(ProductChoicesFuzz, ADamagedFileGivesNoAlgorithmToAnotherProduct) {
  const ProductChoiceMap sound{
      {"H200: 8 x 8 x 8", {.algorithm = ProductAlgorithm{1, 2, 0x123456789abcdef}}},
      {"H200: 8 x 8 x 9", {.algorithm = ProductAlgorithm{3}, .microseconds = 17.25}},
      {"H200: 8 x 16 x 8", {.algorithm = std::nullopt, .microseconds = 1e4}}};
  const std::string text = to_json_lines(sound);
  test::FuzzTime time(2'000);
  test::Mutator mutator(time.seed());
  std::size_t lost = 0;
  while (time.more()) {
    SCOPED_TRACE(time.round());
    const std::string damaged = mutator.damage(text);
    const test::AllocationLimit limit(256 * damaged.size() + (2 << 20));
    const ReadChoices read = parse_product_choices(damaged);
    for (const auto& [product, choice] : read.choices) {
      ASSERT_TRUE(sound.contains(product)) << product;
      EXPECT_EQ(choice.algorithm, sound.at(product).algorithm);
    }
    lost += sound.size() - read.choices.size();
  }
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace weft::cuda
