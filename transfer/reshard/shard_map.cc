#include "transfer/reshard/shard_map.h"

#include <fmt/format.h>

#include <set>

#include "core/base/error.h"

namespace weft::transfer {

const Region* ShardMap::region_of(DeviceId device) const {
  for (const Shard& shard : shards) {
    if (shard.device == device) return &shard.region;
  }
  return nullptr;
}

void ShardMap::validate(const std::string& name) const {
  if (shards.empty())
    throw_error(ErrorCode::kInvalidArgument, "the {} of a resharding has no device", name);
  const Region whole = Region::whole(shape);
  std::set<DeviceId> seen;
  for (const Shard& shard : shards) {
    if (!whole.contains(shard.region)) {
      throw_error(ErrorCode::kInvalidArgument,
                  "the {}: device {} holds {}, which is outside the tensor's shape {}", name,
                  shard.device, to_string(shard.region), weft::to_string(shape));
    }
    if (!seen.insert(shard.device).second) {
      throw_error(ErrorCode::kInvalidArgument,
                  "the {}: device {} appears twice; a device may hold only one region of a tensor",
                  name, shard.device);
    }
  }
}

std::string to_string(const ShardMap& map) {
  std::string text = weft::to_string(map.shape) + ":";
  for (const Shard& shard : map.shards)
    text += fmt::format(" {}={}", shard.device, to_string(shard.region));
  return text;
}

}  // namespace weft::transfer
