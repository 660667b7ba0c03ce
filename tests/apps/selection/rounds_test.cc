#include "apps/selection/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "tests/apps/selection/random_graph.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using test::random_graph, test::rows_of;

TEST(ChooseInRounds, WithOnePartitionIsGreedyInAnyNumberOfRounds) {
  PhiloxStream random(6);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const Objective objective = Objective::of_alpha(100 + 100 * static_cast<int>(random.below(9)));
    const auto points = static_cast<std::uint32_t>(2 + random.below(150));
    const PointGraph graph = random_graph(random, points, 8, round % 2 == 0 ? 3 : 65536, objective);
    RoundOptions options;
    options.count = 1 + random.below(points);
    options.rounds = 1 + random.below(9);
    options.seed = random.below(100);
    EXPECT_EQ(rows_of(choose_in_rounds(graph, objective, options).chosen),
              rows_of(choose_greedily(graph, objective, options.count, options.seed)));
  }
}

TEST(ChooseInPartitions, OfWholeComponentsWithAThresholdIsGreedy) {
  PhiloxStream random(7);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const Objective objective{1, 1};
    // Components of up to 20 points, numbered one after another, each in one of three partitions.
    std::vector<PointId> ids;
    std::vector<std::int64_t> gains;
    std::vector<PointEdge> edges;
    std::vector<std::uint32_t> partition;
    for (int component = 0; component < 12; ++component) {
      const auto points = static_cast<std::uint32_t>(1 + random.below(20));
      const PointGraph one = random_graph(random, points, 5, 5, objective);
      const auto begin = static_cast<std::uint32_t>(ids.size());
      const auto part = static_cast<std::uint32_t>(random.below(3));
      for (std::uint32_t row = 0; row < points; ++row) {
        ids.push_back(begin + row);
        gains.push_back(one.gains[row]);
        partition.push_back(part);
        for (std::uint64_t edge = one.first[row]; edge < one.first[row + 1]; ++edge)
          edges.push_back({begin + row, begin + one.neighbours[edge], one.similarities[edge]});
      }
    }
    const PointGraph graph = make_point_graph(ids, gains, edges);
    RoundOptions options;
    options.count = 1 + random.below(graph.size());
    options.partitions = 3;
    options.quotas = Quotas::kThreshold;
    options.seed = random.below(100);
    EXPECT_EQ(rows_of(choose_in_partitions(graph, objective, options, partition).chosen),
              rows_of(choose_greedily(graph, objective, options.count, options.seed)));
  }
}

TEST(ChooseInRounds, ChoosesExactlyTheCountFromPartitionsThatFit) {
  PhiloxStream random(8);
  const Objective objective{9, 1};
  const PointGraph graph = random_graph(random, 3000, 10, 65536, objective);
  for (const std::uint32_t partitions : {2U, 7U, 16U}) {
    for (const std::uint32_t rounds : {1U, 2U, 8U}) {
      for (const bool adaptive : {false, true}) {
        for (const std::uint64_t count : {1U, 300U, 1501U, 3000U}) {
          SCOPED_TRACE(testing::Message() << partitions << " " << rounds << " " << count);
          RoundOptions options;
          options.count = count;
          options.partitions = partitions;
          options.rounds = rounds;
          options.adaptive = adaptive;
          const RoundsResult result = choose_in_rounds(graph, objective, options);
          const std::vector<std::uint32_t> rows = rows_of(result.chosen);
          EXPECT_EQ(rows.size(), count);
          EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), count);
          std::uint64_t before = graph.size();
          const std::uint64_t capacity = (graph.size() + partitions - 1) / partitions;
          for (const RoundResult& round : result.rounds) {
            EXPECT_LE(round.points, before);
            // Random partitions: the mean fits the capacity, the largest is within six standard
            // deviations.
            const double mean = static_cast<double>(before) / round.partitions;
            EXPECT_LE(mean, static_cast<double>(capacity));
            EXPECT_LE(static_cast<double>(round.largest), mean + 6 * std::sqrt(mean));
            EXPECT_EQ(round.partitions, adaptive ? partitions_for(before, capacity) : partitions);
            before = round.points;
          }
          EXPECT_EQ(before, count);
        }
      }
    }
  }
}

TEST(ChooseInRounds, MoreRoundsAndFewerPartitionsAreBetter) {
  PhiloxStream random(9);
  const Objective objective{9, 1};
  const PointGraph graph = random_graph(random, 4000, 15, 65536, objective);
  const auto score = [&](std::uint32_t partitions, std::uint32_t rounds, bool adaptive = true) {
    RoundOptions options;
    options.count = 1200;
    options.partitions = partitions;
    options.rounds = rounds;
    options.adaptive = adaptive;
    return score_of(graph, objective, rows_of(choose_in_rounds(graph, objective, options).chosen));
  };
  EXPECT_LT(score(16, 1), score(16, 8));
  EXPECT_LT(score(16, 8), score(2, 8));
  EXPECT_LT(score(16, 8, false), score(16, 8));
  EXPECT_LT(score(2, 1), score(1, 1));
}

TEST(PlanRounds, LaterRoundsKeepToTheBytesOfAPartition) {
  RoundOptions options;
  options.count = 100'000;
  options.partitions = 16;
  options.rounds = 8;
  options.neighbours = 15;
  const auto most = [&] {
    std::uint64_t bytes = 0;
    for (const PlannedRound& round : plan_rounds(1'000'000, options))
      bytes = std::max(bytes, partition_bytes(round, options.neighbours));
    return bytes;
  };
  // Fewer partitions keep more edges, so the largest partition is in a later round.
  const std::vector<PlannedRound> free = plan_rounds(1'000'000, options);
  const std::uint64_t first = partition_bytes(free.front(), options.neighbours);
  EXPECT_GT(most(), first * 11 / 10);
  options.most_bytes = first * 11 / 10;
  EXPECT_LE(most(), options.most_bytes);
  const std::vector<PlannedRound> capped = plan_rounds(1'000'000, options);
  for (std::size_t i = 0; i < free.size(); ++i) {
    EXPECT_GE(capped[i].partitions, free[i].partitions);
    EXPECT_LE(capped[i].partitions, 16U);
    EXPECT_EQ(capped[i].stay, free[i].stay);
  }
  // The first round has the requested partitions, whatever memory they need.
  options.most_bytes = 1;
  EXPECT_EQ(plan_rounds(1'000'000, options).front().partitions, 16U);
}

TEST(PointsAfterRound, FallToTheCount) {
  // ceil(0.75 * (4 - t) * 900 / 4) + 100
  EXPECT_EQ(points_after_round(1000, 100, 4, 1, 750), 607U);
  EXPECT_EQ(points_after_round(1000, 100, 4, 2, 750), 438U);
  EXPECT_EQ(points_after_round(1000, 100, 4, 3, 750), 269U);
  EXPECT_EQ(points_after_round(1000, 100, 4, 4, 750), 100U);
  EXPECT_EQ(points_after_round(13'000'000'000, 1, 2, 1, 1000), 6'500'000'001U);
}

TEST(PartitionQuotas, AreEqualAsFarAsSizesAllow) {
  const auto quotas = [](std::uint64_t count, std::vector<std::uint64_t> sizes) {
    return partition_quotas(count, sizes);
  };
  EXPECT_EQ(quotas(10, {9, 9, 9}), (std::vector<std::uint64_t>{4, 3, 3}));
  EXPECT_EQ(quotas(10, {1, 9, 9}), (std::vector<std::uint64_t>{1, 5, 4}));
  EXPECT_EQ(quotas(10, {0, 2, 8}), (std::vector<std::uint64_t>{0, 2, 8}));
  EXPECT_EQ(quotas(0, {3}), (std::vector<std::uint64_t>{0}));
  EXPECT_THAT(
      [&] {
        quotas(11, {2, 8});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "no points left, but 1 more must be chosen"));
}

TEST(ChooseInRounds, RefusesNumbersThatMakeNoSense) {
  const PointGraph graph = make_point_graph({0, 1}, {1, 2}, {});
  const auto options = [](std::uint64_t count, std::uint32_t partitions, std::uint32_t rounds,
                          std::uint32_t delta) {
    RoundOptions result;
    result.count = count;
    result.partitions = partitions;
    result.rounds = rounds;
    result.delta = delta;
    return result;
  };
  const std::pair<RoundOptions, const char*> cases[] = {
      {options(0, 1, 1, 750), "0 of 2 points cannot be chosen"},
      {options(3, 1, 1, 750), "3 of 2 points cannot be chosen"},
      {options(1, 0, 1, 750), "0 partitions in 1 rounds"},
      {options(1, 1, 0, 750), "1 partitions in 0 rounds"},
      {options(1, 1, 1, 1001), "delta is 1.001"},
  };
  for (const auto& wrong : cases)
    EXPECT_THAT(
        [&] {
          choose_in_rounds(graph, {1, 1}, wrong.first);
        },
        test::throws_error(ErrorCode::kInvalidArgument, wrong.second));
}

}  // namespace
}  // namespace weft::apps
