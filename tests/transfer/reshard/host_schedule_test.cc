#include "transfer/reshard/internal/host_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace weft::transfer::internal {
namespace {

/// Checks that each unit occurs once, from one of its senders.
void check_order(const std::vector<ScheduleItem>& units, const std::vector<HostAssignment>& order) {
  ASSERT_EQ(order.size(), units.size());
  std::vector<int> seen(units.size());
  for (const HostAssignment& placement : order) {
    ++seen.at(placement.unit);
    const auto& senders = units[placement.unit].senders;
    EXPECT_NE(std::find(senders.begin(), senders.end(), placement.sender), senders.end());
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(units.size()));
}

std::uint64_t best_by_brute_force(const std::vector<ScheduleItem>& units, std::size_t hosts) {
  std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
  std::vector<HostAssignment> order;
  std::vector<bool> used(units.size());
  const std::function<void()> go = [&] {
    if (order.size() == units.size()) best = std::min(best, makespan(units, order, hosts));
    for (std::uint32_t i = 0; i < units.size(); ++i) {
      if (used[i]) continue;
      used[i] = true;
      for (const std::uint32_t sender : units[i].senders) {
        order.push_back({i, sender});
        go();
        order.pop_back();
      }
      used[i] = false;
    }
  };
  go();
  return best;
}

TEST(HostSchedule, SearchFindsTheBestOrderAndGreedyAnyValidOne) {
  const std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", seed, round));
    const std::size_t hosts = 3 + random() % 3;
    std::vector<ScheduleItem> units(1 + random() % 5);
    for (std::uint32_t i = 0; i < units.size(); ++i) {
      units[i].bundle = i;
      units[i].bytes = 1 + random() % 4;
      for (std::uint32_t h = 0; h < hosts; ++h) {
        if (h < 2 && (random() % 2 == 0 || (h == 1 && units[i].senders.empty())))
          units[i].senders.push_back(h);
        if (h >= 2 && random() % 2 == 0) units[i].receivers.push_back(h);
      }
      if (units[i].receivers.empty()) units[i].receivers.push_back(2);
    }
    const std::vector<HostAssignment> greedy = greedy_order(units, hosts, 1);
    check_order(units, greedy);
    const std::vector<HostAssignment> found = search_order(units, hosts, greedy, 10'000'000);
    check_order(units, found);
    ASSERT_EQ(makespan(units, found, hosts), best_by_brute_force(units, hosts));
    const std::vector<HostAssignment> cut_short = search_order(units, hosts, greedy, 3);
    ASSERT_LE(makespan(units, cut_short, hosts), makespan(units, greedy, hosts));
  }
}

TEST(HostSchedule, GreedyReachesTheOptimumOfTheAllToAllCase) {
  // 2 hosts to 2 hosts with 16 equal units per pair: paper-4's conflict. The natural order takes
  // twice as long.
  std::vector<ScheduleItem> units;
  for (std::uint32_t to = 2; to < 4; ++to) {
    for (std::uint32_t from = 0; from < 2; ++from) {
      for (int i = 0; i < 16; ++i)
        units.push_back({static_cast<std::uint32_t>(units.size()), 1, {from}, {to}});
    }
  }
  EXPECT_EQ(makespan(units, greedy_order(units, 4, 20261121), 4), 32u);
}

}  // namespace
}  // namespace weft::transfer::internal
