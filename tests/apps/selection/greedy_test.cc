#include "apps/selection/greedy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/base/error.h"
#include "tests/apps/selection/random_graph.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using test::gain_beside, test::random_graph, test::rows_of;

/// Chooses greedily by evaluating all points in each step.
std::vector<ChosenPoint> choose_plainly(const PointGraph& graph, const Objective& objective,
                                        std::size_t count, std::uint64_t seed) {
  std::vector<bool> in(graph.size(), false);
  std::vector<ChosenPoint> chosen;
  while (chosen.size() < std::min(count, graph.size())) {
    std::optional<std::uint32_t> best;
    const auto rank = [&](std::uint32_t row) {
      return PointRank(gain_beside(graph, objective, row, in), graph.ids[row], seed);
    };
    for (std::uint32_t row = 0; row < graph.size(); ++row)
      if (!in[row] && (!best || rank(row).comes_before(rank(*best)))) best = row;
    chosen.push_back({*best, rank(*best).gain});
    in[*best] = true;
  }
  return chosen;
}

TEST(ChooseGreedily, EqualsASearchOverAllPoints) {
  PhiloxStream random(1);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    const Objective objective = Objective::of_alpha(100 + 100 * static_cast<int>(random.below(9)));
    const auto points = static_cast<std::uint32_t>(1 + random.below(round % 50 == 0 ? 200 : 40));
    const PointGraph graph = random_graph(random, points, static_cast<double>(random.below(20)),
                                          round % 2 == 0 ? 3 : 65536, objective);
    const std::uint64_t count = 1 + random.below(points), seed = random.below(5);
    const auto chosen = choose_greedily(graph, objective, count, seed);
    ASSERT_EQ(chosen, choose_plainly(graph, objective, count, seed));
    EXPECT_TRUE(std::ranges::is_sorted(chosen, std::greater(), &ChosenPoint::gain));
    // The gains add up to the score.
    const std::int64_t sum = std::accumulate(
        chosen.begin(), chosen.end(), std::int64_t{0},
        [](std::int64_t all, const ChosenPoint& point) { return all + point.gain; });
    EXPECT_EQ(sum, score_of(graph, objective, rows_of(chosen)));
  }
}

TEST(ChooseGreedily, GoesOnWhereEverythingCosts) {
  const Objective objective{1, 1};
  // Two equal points: the second has a negative gain.
  const PointGraph graph = make_point_graph({0, 1}, {10, 10}, {{0, 1, 65535}, {1, 0, 65535}});
  const auto chosen = choose_greedily(graph, objective, 2, 0);
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[1].gain, 10 - 65535);
  EXPECT_EQ(choose_greedily(graph, objective, 9, 0).size(), 2U);
}

TEST(ChooseGreedily, BreaksTiesByTheSeedAndNotByTheId) {
  constexpr std::uint32_t kPoints = 1000;
  std::vector<PointId> ids(kPoints);
  std::iota(ids.begin(), ids.end(), 0U);
  const PointGraph graph = make_point_graph(ids, std::vector<std::int64_t>(kPoints, 7), {});
  std::set<std::vector<std::uint32_t>> sets;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto rows = rows_of(choose_greedily(graph, {1, 1}, 100, seed));
    EXPECT_EQ(rows, rows_of(choose_greedily(graph, {1, 1}, 100, seed)));
    // The choice is spread over the whole input.
    EXPECT_GT(rows.back(), 900U);
    EXPECT_GT(std::accumulate(rows.begin(), rows.end(), 0U), 40'000U);
    EXPECT_LT(std::accumulate(rows.begin(), rows.end(), 0U), 60'000U);
    sets.insert(rows);
  }
  EXPECT_EQ(sets.size(), 3U);
}

TEST(Objective, HasWholeWeights) {
  EXPECT_EQ(Objective::of_alpha(900), (Objective{9, 1}));
  EXPECT_EQ(Objective::of_alpha(500), (Objective{1, 1}));
  EXPECT_EQ(Objective::of_alpha(1000), (Objective{1, 0}));
  EXPECT_EQ(Objective::of_alpha(333), (Objective{333, 667}));
  EXPECT_THAT([&] { Objective::of_alpha(0); },
              test::throws_error(ErrorCode::kInvalidArgument, "alpha is 0:"));
  EXPECT_THAT([&] { Objective::of_alpha(1001); },
              test::throws_error(ErrorCode::kInvalidArgument, "alpha is 1.001:"));
}

TEST(PartOf, KeepsTheEdgesInside) {
  const PointGraph graph = make_point_graph(
      {5, 6, 9}, {1, 2, 3}, {{0, 1, 7}, {1, 0, 7}, {1, 2, 8}, {2, 1, 8}, {0, 2, 9}, {2, 0, 9}});
  const std::vector<std::uint32_t> rows = {0, 2};
  const PointGraph part = part_of(graph, rows);
  EXPECT_EQ(part.ids, (std::vector<PointId>{5, 9}));
  EXPECT_EQ(part.gains, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(part.neighbours, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(part.similarities, (std::vector<std::uint16_t>{9, 9}));
  EXPECT_EQ(part.first, (std::vector<std::uint64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace weft::apps
