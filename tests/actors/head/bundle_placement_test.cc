#include "actors/head/bundle_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using Verdict = PlacedBundles::Verdict;

/// Returns whether each host has what its bundles need, and the hosts obey the strategy.
bool is_valid(const BundlesToPlace& problem, const std::vector<std::size_t>& hosts) {
  auto free = problem.hosts;
  std::set<std::size_t> used;
  for (std::size_t bundle = 0; bundle < hosts.size(); ++bundle) {
    used.insert(hosts[bundle]);
    const bool is_kept = bundle < problem.kept.size() && problem.kept[bundle];
    if (!is_kept && !problem.hosts[hosts[bundle]].may_take) return false;
    if (is_kept) {
      if (*problem.kept[bundle] != hosts[bundle]) return false;
      continue;
    }
    for (std::size_t i = 0; i < problem.needs[bundle].size(); ++i)
      if ((free[hosts[bundle]].free[i] -= problem.needs[bundle][i]) < 0) return false;
  }
  if (problem.strategy == PlacementStrategy::kStrictPack) return used.size() <= 1;
  if (problem.strategy == PlacementStrategy::kStrictSpread) return used.size() == hosts.size();
  return true;
}

/// Tries all assignments of bundles to hosts.
bool exists(const BundlesToPlace& problem) {
  std::vector<std::size_t> hosts(problem.needs.size(), 0);
  while (true) {
    if (is_valid(problem, hosts)) return true;
    std::size_t bundle = 0;
    while (bundle < hosts.size() && ++hosts[bundle] == problem.hosts.size()) hosts[bundle++] = 0;
    if (bundle == hosts.size()) return false;
  }
}

BundlesToPlace random_problem(std::mt19937& random, PlacementStrategy strategy) {
  const auto below = [&](int limit) { return static_cast<std::int64_t>(random() % limit); };
  BundlesToPlace problem;
  problem.strategy = strategy;
  const auto num_resources = static_cast<std::size_t>(1 + below(2));
  const bool equal = below(3) == 0;
  for (std::int64_t bundle = 1 + below(4); bundle > 0; --bundle) {
    std::vector<std::int64_t> needs;
    for (std::size_t i = 0; i < num_resources; ++i) needs.push_back(below(4));
    problem.needs.push_back(equal && !problem.needs.empty() ? problem.needs.front() : needs);
  }
  for (std::int64_t host = 1 + below(4); host > 0; --host) {
    BundlesToPlace::Room room;
    for (std::size_t i = 0; i < num_resources; ++i) room.free.push_back(below(6));
    room.load = static_cast<double>(below(3)) / 2;
    room.num_uses = static_cast<std::size_t>(below(3));
    room.may_take = below(5) > 0;
    problem.hosts.push_back(room);
  }
  const auto host = [&] { return static_cast<std::size_t>(below(int(problem.hosts.size()))); };
  if (below(2) == 0) {
    problem.kept.resize(problem.needs.size());
    problem.last.resize(problem.needs.size());
    for (std::size_t bundle = 0; bundle < problem.needs.size(); ++bundle) {
      const std::size_t kept = host();
      // Kept bundles obey the strategy.
      const bool others_obey =
          strategy != PlacementStrategy::kStrictSpread ||
          std::ranges::find(problem.kept, std::optional(kept)) == problem.kept.end();
      if (below(3) == 0 && others_obey)
        problem.kept[bundle] = strategy == PlacementStrategy::kStrictPack ? 0 : kept;
      else if (below(2) == 0) problem.last[bundle] = host();
    }
  }
  return problem;
}

TEST(BundlePlacement, AgreesWithBruteForceOnSmallProblems) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    const auto strategy = static_cast<PlacementStrategy>(1 + i % 4);
    const BundlesToPlace problem = random_problem(random, strategy);
    const PlacedBundles placed = place_bundles(problem);
    ASSERT_EQ(placed.verdict, exists(problem) ? Verdict::kPlaced : Verdict::kImpossible)
        << "problem " << i;
    if (placed.verdict != Verdict::kPlaced) continue;
    ASSERT_EQ(placed.hosts.size(), problem.needs.size());
    ASSERT_TRUE(is_valid(problem, placed.hosts)) << "problem " << i;
  }
}

TEST(BundlePlacement, PackFillsHostsInOrderAndSpreadTakesThemInTurn) {
  BundlesToPlace problem;
  problem.needs.assign(4, {1});
  problem.hosts = {{{3}, 0.5, 1}, {{3}, 0, 0}, {{1}, 0, 0}};
  EXPECT_THAT(place_bundles(problem).hosts, ElementsAre(0, 0, 0, 1));
  problem.strategy = PlacementStrategy::kSpread;
  EXPECT_THAT(place_bundles(problem).hosts, ElementsAre(1, 2, 0, 1)) << "the least loaded first";
  problem.strategy = PlacementStrategy::kStrictPack;
  EXPECT_EQ(place_bundles(problem).verdict, Verdict::kImpossible);
  EXPECT_EQ(place_bundles(problem).num_placed, 3u);
  problem.strategy = PlacementStrategy::kStrictSpread;
  EXPECT_EQ(place_bundles(problem).verdict, Verdict::kImpossible);
  EXPECT_EQ(place_bundles(problem).num_placed, 3u);
  problem.needs.pop_back();
  EXPECT_THAT(place_bundles(problem).hosts, ElementsAre(1, 2, 0));
}

TEST(BundlePlacement, KeptBundlesCountAsPlaced) {
  BundlesToPlace problem;
  problem.needs.assign(4, {1});
  problem.hosts.assign(3, {{1}});
  problem.kept = {0, 1, std::nullopt, std::nullopt};
  for (const auto strategy : {PlacementStrategy::kStrictSpread, PlacementStrategy::kSpread}) {
    problem.strategy = strategy;
    problem.hosts[0].free = problem.hosts[1].free = {0};
    EXPECT_EQ(place_bundles(problem).verdict, Verdict::kImpossible);
    EXPECT_EQ(place_bundles(problem).num_placed, 3u);
  }
}

TEST(BundlePlacement, BundlesOfSeveralSizesFindTheirPlaceInAnyOrder) {
  BundlesToPlace problem;
  problem.needs = {{1}, {1}, {2}};
  problem.hosts = {{{2}}, {{2}}};
  EXPECT_THAT(place_bundles(problem).hosts, ElementsAre(0, 0, 1));
  problem.strategy = PlacementStrategy::kSpread;
  const PlacedBundles spread = place_bundles(problem);
  EXPECT_EQ(spread.verdict, Verdict::kPlaced);
  EXPECT_TRUE(is_valid(problem, spread.hosts));
}

TEST(BundlePlacement, ManyRanksAreEvenOverManyHosts) {
  BundlesToPlace problem;
  problem.strategy = PlacementStrategy::kSpread;
  problem.needs.assign(1'000, {1});
  problem.hosts.assign(100, {{1'000}});
  const PlacedBundles placed = place_bundles(problem);
  for (std::size_t host = 0; host < 100; ++host)
    EXPECT_EQ(std::ranges::count(placed.hosts, host), 10);
  problem.strategy = PlacementStrategy::kStrictSpread;
  EXPECT_EQ(place_bundles(problem).num_placed, 100u);
}

}  // namespace
}  // namespace weft::actors
