#include "transfer/execute/internal/egress_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace weft::transfer {
namespace {

using Key = EgressOrder::Key;

TEST(EgressOrder, TheLowestThatWantGoFirstUpToTheLimit) {
  EgressOrder order(2);
  EXPECT_EQ(order.next(), std::nullopt);
  order.update({1, 0}, true, false);
  order.update({0, 7}, true, false);
  order.update({0, 2}, true, false);
  EXPECT_EQ(order.next(), (Key{0, 2}));
  order.update({0, 2}, false, true);  // full window
  EXPECT_EQ(order.next(), (Key{0, 7}));
  order.update({0, 7}, false, true);
  EXPECT_EQ(order.next(), std::nullopt) << "two move";
  order.update({0, 2}, false, false);
  EXPECT_EQ(order.next(), (Key{1, 0})) << "a stream without a chunk holds no place";
}

TEST(EgressOrder, ATransferWhosePlanNamesMorePlacesGetsThemAndHoldsUpNoEarlierOne) {
  EgressOrder order(1);
  for (std::uint32_t stream = 0; stream < 5; ++stream) {
    order.update({1, stream}, true, false, 4);
    const std::optional<Key> next = order.next();
    ASSERT_EQ(next.has_value(), stream < 4);
    if (next) order.update(*next, false, true, 4);
  }
  order.update({0, 0}, true, false);
  order.update({1, 2}, true, false, 4);
  EXPECT_EQ(order.next(), (Key{0, 0})) << "three of four move";
  order.update({0, 0}, false, true);
  order.update({0, 1}, true, false);
  order.update({1, 0}, false, false, 4);
  EXPECT_EQ(order.next(), (Key{1, 2})) << "the earlier transfer has one place, which is taken";
}

TEST(EgressOrder, OnceATransferWithMorePlacesIsOverTheLimitIsAsBefore) {
  EgressOrder order(1);
  order.update({0, 0}, true, true, 4);
  order.update({0, 0}, false, false, 4);
  order.update({0, 1}, true, true, 4);
  order.remove(0);
  order.update({2, 0}, false, true);
  order.update({1, 0}, true, false);
  EXPECT_EQ(order.next(), std::nullopt) << "one moves";
}

TEST(EgressOrder, AHigherStreamMakesRoomWhenItsChunksEnd) {
  EgressOrder order(1);
  order.update({5, 0}, true, true);
  order.update({4, 0}, true, false);
  EXPECT_EQ(order.next(), std::nullopt) << "5 may send no more, 4 waits for what moves";
  order.update({5, 0}, true, false);
  EXPECT_EQ(order.next(), (Key{4, 0}));
}

TEST(EgressOrder, HeldChunksMakeRoom) {
  EgressOrder order(1);
  order.update({0, 0}, false, true);
  order.update({1, 0}, true, false);
  EXPECT_EQ(order.next(), std::nullopt);
  order.update({0, 0}, false, false);  // all chunks in flight are held
  EXPECT_EQ(order.next(), (Key{1, 0}));
}

TEST(EgressOrder, ATransferThatIsRemovedLeavesItsPlaces) {
  EgressOrder order(1);
  order.update({0, 0}, true, true);
  order.update({0, 1}, true, false);
  order.update({1, 0}, true, false);
  order.remove(0);
  EXPECT_EQ(order.num_moving(), 0u);
  EXPECT_EQ(order.next(), (Key{1, 0}));
}

TEST(EgressOrder, TheLimitHoldsAndSomeTransferMayMoveWhenNoneDoes) {
  const std::uint64_t seed = 8;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const std::size_t limit = 1 + random() % 3;
    EgressOrder order(limit);
    std::map<Key, std::pair<bool, bool>> model;
    for (int i = 0; i < 200; ++i) {
      const Key key{random() % 3, static_cast<std::uint32_t>(random() % 4)};
      auto& [wants, moves] = model[key];
      wants = random() % 2 == 0;
      moves = moves && random() % 2 == 0;
      order.update(key, wants, moves);
      while (const auto next = order.next()) {
        ASSERT_TRUE(model[*next].first);
        std::set<Key> before;
        for (const auto& [other, state] : model) {
          if (other < *next && (state.first || state.second)) before.insert(other);
        }
        ASSERT_LT(before.size(), limit) << "lower streams go first";
        model[*next] = {random() % 2 == 0, true};
        order.update(*next, model[*next].first, true);
        if (model[*next].first) break;
      }
      std::size_t moving = 0, wanting = 0;
      for (const auto& [other, state] : model) {
        moving += state.second ? 1 : 0;
        wanting += state.first ? 1 : 0;
      }
      ASSERT_LE(moving, limit);
      ASSERT_EQ(moving, order.num_moving());
      if (moving == 0 && wanting > 0) {
        ASSERT_TRUE(order.next().has_value());
      }
    }
  }
}

}  // namespace
}  // namespace weft::transfer
