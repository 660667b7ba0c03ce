#include "apps/selection/shard_owners.h"

namespace weft::apps {

std::vector<std::uint32_t> ShardOwners::shards_of(std::uint32_t rank) const {
  std::vector<std::uint32_t> shards;
  for (std::uint32_t shard = 0; shard < layout.shards; ++shard)
    if (owner_of_shard(shard) == rank) shards.push_back(shard);
  return shards;
}

}  // namespace weft::apps
