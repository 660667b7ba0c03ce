#include "mesh/program/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

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
      const std::int64_t first = random() % 40;
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
        const bool apart = plan.offsets[a] + lives[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + lives[b].bytes <= plan.offsets[a];
        ASSERT_TRUE(!meet || apart || lives[a].bytes == 0 || lives[b].bytes == 0)
            << a << " and " << b;
      }
    }
  }
}

/// Computes offsets by the definition in plan_arena()'s comment.
std::vector<std::uint64_t> offsets_by_definition(const std::vector<Lifetime>& lives) {
  std::vector<std::size_t> order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return lives[i].bytes; });
  const auto size = [&](std::size_t i) { return (lives[i].bytes + 63) / 64 * 64; };
  std::vector<std::uint64_t> offsets(lives.size());
  std::vector<std::size_t> placed;
  for (const std::size_t piece : order) {
    const auto collides = [&](std::uint64_t offset) {
      return std::ranges::any_of(placed, [&](std::size_t other) {
        return lives[other].first <= lives[piece].last && lives[piece].first <= lives[other].last &&
               offset < offsets[other] + size(other) && offsets[other] < offset + size(piece);
      });
    };
    while (collides(offsets[piece])) offsets[piece] += 64;
    placed.push_back(piece);
  }
  return offsets;
}

TEST(Arena, EachPieceLiesAtTheLowestFreeOffsetLargestFirst) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 400; ++round) {
    std::vector<Lifetime> lives;
    const std::size_t times = 1 + random() % 100;
    const std::uint64_t largest = 1 + random() % 2000;
    const std::size_t count = 1 + random() % 120;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t first = random() % times;
      // A fifth of the pieces live to the end, like tensors sent without a reply.
      const auto last = random() % 5 == 0 ? static_cast<std::int64_t>(times)
                                          : first + static_cast<std::int64_t>(random() % 20);
      lives.push_back({random() % largest, first, last});
    }
    ASSERT_EQ(plan_arena(lives).offsets, offsets_by_definition(lives)) << "round " << round;
  }
}

// A device's tensors over 10,000 microbatches: 30 each, few of them alive at a time. Comparing all
// pairs took minutes.
TEST(Arena, ManyPiecesThatFollowEachOtherArePlacedInSeconds) {
  std::vector<Lifetime> lives;
  for (std::int64_t i = 0; i < 300'000; ++i)
    lives.push_back({64 + 64 * static_cast<std::uint64_t>(i % 100), i, i + 10});
  EXPECT_LE(plan_arena(lives).bytes, 11u * 64 * 101 * 2);
}

// A device's tensors over 10,000 microbatches whose outputs are sent and stay alive until the end
// of the step. Comparing all pairs took minutes.
TEST(Arena, ManyPiecesThatAreNeededToTheEndArePlacedInSeconds) {
  constexpr std::int64_t kMicrobatches = 10'000, kPieces = 30;
  std::vector<Lifetime> lives;
  for (std::int64_t m = 0; m < kMicrobatches; ++m) {
    for (std::int64_t i = 0; i < kPieces; ++i)
      lives.push_back({64, m * kPieces + i, m * kPieces + i + 5});
    lives.push_back({4096, m * kPieces + 5, kMicrobatches * kPieces + 5});
  }
  EXPECT_EQ(plan_arena(lives).bytes, 4096u * kMicrobatches + 64 * 6);
}

}  // namespace
}  // namespace weft::mesh
