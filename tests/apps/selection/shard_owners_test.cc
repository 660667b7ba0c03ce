#include "apps/selection/shard_owners.h"

#include <gtest/gtest.h>

namespace weft::apps {
namespace {

TEST(ShardOwners, EachShardHasOneOwnerAndEachRankAdjacentShards) {
  for (const std::uint32_t shards : {1U, 7U, 64U}) {
    for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 100U}) {
      const ShardOwners owners{{1000, shards}, ranks};
      std::uint32_t next = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(owners.first_shard_of(rank), next) << shards << " shards, " << ranks << " ranks";
        for (const std::uint32_t shard : owners.shards_of(rank)) {
          EXPECT_EQ(shard, next++);
          EXPECT_EQ(owners.owner_of_shard(shard), rank);
        }
      }
      EXPECT_EQ(next, shards);
      EXPECT_EQ(owners.first_shard_of(ranks), shards);
    }
  }
}

TEST(ShardOwners, APointIsOwnedByTheOwnerOfItsShard) {
  const ShardOwners owners{{100, 10}, 3};
  EXPECT_EQ(owners.owner_of(0), 0U);
  EXPECT_EQ(owners.owner_of(39), 0U);  // the first four shards
  EXPECT_EQ(owners.owner_of(40), 1U);
  EXPECT_EQ(owners.owner_of(99), 2U);
}

}  // namespace
}  // namespace weft::apps
