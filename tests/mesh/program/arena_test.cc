#include "mesh/program/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft::mesh {
namespace {

TEST(Arena, PiecesThatNeverMeetShareMemory) {
  const ArenaPlan plan = plan_arena({{100, 0, 1}, {100, 2, 3}});
  EXPECT_EQ(plan.bytes, 128u);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
}

TEST(Arena, PiecesAliveTogetherNeverOverlapAndTheArenaIsAtMostTheirSum) {
  const std::uint64_t seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < 1 + random() % 60; ++i) {
      const auto first = static_cast<std::int64_t>(random() % 40);
      lives.push_back({random() % 5000, first, first + static_cast<std::int64_t>(random() % 20)});
      sum += (lives.back().bytes + 63) / 64 * 64;
    }
    const ArenaPlan plan = plan_arena(lives);
    EXPECT_LE(plan.bytes, sum);
    for (std::size_t a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0u);
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        const bool meet = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool apart =
            plan.offsets[a] + lives[a].bytes <= plan.offsets[b] || plan.offsets[b] + lives[b].bytes <= plan.offsets[a];
        ASSERT_TRUE(!meet || apart || lives[a].bytes == 0 || lives[b].bytes == 0) << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace weft::mesh
