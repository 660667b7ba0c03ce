#include "transfer/reshard/internal/task_hash.h"

namespace weft::transfer::internal {

std::uint64_t hash_of(const ReshardTask& task) {
  std::uint64_t hash = 0;
  for (const std::int64_t extent : task.type.shape) hash = mix(hash, extent);
  const auto add = [&](const ShardMap& map) {
    hash = mix(hash, map.shards.size());
    for (const Shard& shard : map.shards) {
      hash = mix(hash, shard.device.value());
      for (const Interval& interval : shard.region.intervals())
        hash = mix(mix(hash, interval.begin), interval.end);
    }
  };
  add(task.source);
  add(task.destination);
  for (const ShardMap& addend : task.addends) add(addend);
  return hash;
}

}  // namespace weft::transfer::internal
