#include "transfer/reshard/slices.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"

namespace weft::transfer {
namespace {

using RegionHolders = std::map<Region, std::vector<DeviceId>>;

RegionHolders by_region(const ShardMap& map) {
  RegionHolders regions;
  for (const Shard& shard : map.shards) regions[shard.region].push_back(shard.device);
  for (auto& [region, devices] : regions) std::sort(devices.begin(), devices.end());
  return regions;
}

}  // namespace

std::vector<Slice> cut_slices(const ShardMap& source, const ShardMap& destination) {
  source.validate("source");
  destination.validate("destination");
  if (source.shape != destination.shape) {
    throw_error(ErrorCode::kInvalidArgument,
                "a resharding goes from shape {} to shape {}; both must be the same tensor",
                weft::to_string(source.shape), weft::to_string(destination.shape));
  }
  const RegionHolders sources = by_region(source);
  for (auto a = sources.begin(); a != sources.end(); ++a) {
    for (auto b = std::next(a); b != sources.end(); ++b) {
      if (a->first.intersect(b->first)) {
        throw_error(ErrorCode::kInvalidArgument,
                    "source regions {} and {} overlap partly; replicas must hold equal regions",
                    to_string(a->first), to_string(b->first));
      }
    }
  }
  std::vector<Slice> slices;
  for (const auto& [wanted, receivers] : by_region(destination)) {
    std::int64_t covered = 0;
    for (const auto& [held, holders] : sources) {
      const auto overlap = held.intersect(wanted);
      if (!overlap) continue;
      covered += overlap->num_elements();
      Slice slice{*overlap, holders, {}, {}};
      for (const DeviceId receiver : receivers) {
        (std::binary_search(holders.begin(), holders.end(), receiver) ? slice.local
                                                                      : slice.receivers)
            .push_back(receiver);
      }
      slices.push_back(std::move(slice));
    }
    if (covered != wanted.num_elements()) {
      throw_error(
          ErrorCode::kInvalidArgument,
          "destination region {} (device {}) has {} elements, but the source holds only {} of them",
          to_string(wanted), receivers.front(), wanted.num_elements(), covered);
    }
  }
  return slices;
}

}  // namespace weft::transfer
