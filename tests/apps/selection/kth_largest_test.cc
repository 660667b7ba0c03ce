#include "apps/selection/kth_largest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

/// Searches for the k-th largest of `numbers`, which are distributed over three owners.
KthLargest find(const std::vector<std::int64_t>& numbers, std::uint64_t k) {
  KthLargest search(k);
  while (!search.is_found()) {
    KthLargest::Counts all(KthLargest::kBins, 0);
    for (std::size_t owner = 0; owner < 3; ++owner) {
      KthLargest::Counts own(KthLargest::kBins, 0);
      for (std::size_t i = owner; i < numbers.size(); i += 3)
        if (const auto bin = search.bin_of(numbers[i])) ++own[*bin];
      std::ranges::transform(all, own, all.begin(), std::plus());
    }
    search.end_pass(all);
  }
  return search;
}

TEST(KthLargest, IsThatOfTheSortedNumbers) {
  PhiloxStream random(2);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const std::uint64_t range = std::uint64_t{1} << (1 + random.below(62));
    std::vector<std::int64_t> numbers(1 + random.below(300));
    for (std::int64_t& number : numbers)
      number =
          static_cast<std::int64_t>(random.below(range)) - static_cast<std::int64_t>(range / 2);
    const std::uint64_t k = 1 + random.below(numbers.size());
    const KthLargest found = find(numbers, k);
    std::vector<std::int64_t> sorted = numbers;
    std::ranges::sort(sorted, std::greater());
    EXPECT_EQ(found.value(), sorted[k - 1]);
    EXPECT_EQ(found.ties(), static_cast<std::uint64_t>(
                                std::count(sorted.begin(), sorted.begin() + k, found.value())));
  }
}

TEST(KthLargest, KnowsTheWholeRange) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> numbers = {0, kLeast, -1, kMost, 1};
  EXPECT_EQ(find(numbers, 1).value(), kMost);
  EXPECT_EQ(find(numbers, 3).value(), 0);
  EXPECT_EQ(find(numbers, 5).value(), kLeast);
  EXPECT_THAT([&] { find(numbers, 6); }, test::throws_error(ErrorCode::kInvalidArgument,
                                                            "k exceeds the count of numbers by 1"));
}

}  // namespace
}  // namespace weft::apps
