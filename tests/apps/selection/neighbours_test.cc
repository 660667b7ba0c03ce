#include "apps/selection/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/philox.h"
#include "tests/apps/selection/exact_neighbours.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NormaliseVectors, GivesLengthOneAndNamesRowsThatCannotHaveIt) {
  std::vector<float> values = {3, 4, 0, -2};
  normalise_vectors(values, 2, "a.npy");
  EXPECT_THAT(values, ElementsAre(testing::FloatEq(0.6F), testing::FloatEq(0.8F), 0, -1));
  const auto message = [](std::vector<float> wrong) {
    return test::error_message(ErrorCode::kInvalidArgument,
                               [&] { normalise_vectors(wrong, 2, "a.npy", 10); });
  };
  EXPECT_THAT(message({1, 1, 0, 0}), HasSubstr("a.npy, row 11: the vector is zero"));
  EXPECT_THAT(message({1, NAN}), HasSubstr("a.npy, row 10: number 1 is no number (NaN)"));
  EXPECT_THAT(message({1, 2, std::numeric_limits<float>::infinity(), 0}),
              HasSubstr("a.npy, row 11: number 0 is infinite"));
}

TEST(Symmetrise, KeepsEdgesThatEitherSideLists) {
  NeighbourLists lists = {{{11, 5}}, {{12, 9}, {10, 5}}, {}, {{10, 1}}};
  make_symmetric(lists, 10);
  EXPECT_THAT(lists[0], ElementsAre(Neighbour{11, 5}, Neighbour{13, 1}));
  EXPECT_THAT(lists[1], ElementsAre(Neighbour{10, 5}, Neighbour{12, 9}));
  EXPECT_THAT(lists[2], ElementsAre(Neighbour{11, 9}));
  EXPECT_THAT(lists[3], ElementsAre(Neighbour{10, 1}));
}

TEST(ExactNeighbours, AreTheMostSimilarAndThoseThatListThem) {
  constexpr std::size_t kPoints = 60, kColumns = 5, kCount = 4;
  PhiloxStream random(12);
  std::vector<float> vectors(kPoints * kColumns);
  for (float& value : vectors) value = static_cast<float>(random.below(2001)) / 1000 - 1;
  normalise_vectors(vectors, kColumns, "drawn");
  const auto similarity = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < kColumns; ++i)
      sum += static_cast<double>(vectors[a * kColumns + i]) * vectors[b * kColumns + i];
    return std::max(sum, 0.0);
  };
  const NeighbourLists lists = exact_neighbours(vectors, kColumns, kCount);
  const auto rank = [&](std::size_t of, std::size_t other) {
    int nearer = 0;
    for (std::size_t i = 0; i < kPoints; ++i)
      nearer += i != of && i != other && similarity(of, i) > similarity(of, other) ? 1 : 0;
    return nearer;
  };
  for (std::size_t a = 0; a < kPoints; ++a) {
    EXPECT_GE(lists[a].size(), kCount);
    for (std::size_t b = 0; b < kPoints; ++b) {
      if (a == b) continue;
      const auto found = std::ranges::find(lists[a], b, &Neighbour::id);
      const bool listed =
          rank(a, b) < static_cast<int>(kCount) || rank(b, a) < static_cast<int>(kCount);
      EXPECT_EQ(found != lists[a].end(), listed) << a << " " << b;
      if (found != lists[a].end()) {
        EXPECT_NEAR(found->similarity / 65535.0, similarity(a, b), 2e-5);
      }
    }
  }
  // The floor excludes less similar points.
  const auto floor = static_cast<std::uint16_t>(0.8 * 65535);
  for (const auto& list : exact_neighbours(vectors, kColumns, kCount, floor))
    for (const Neighbour& neighbour : list) EXPECT_GE(neighbour.similarity, floor);
}

}  // namespace
}  // namespace weft::apps
