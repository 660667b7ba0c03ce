#include "transfer/reshard/slices.h"

#include <fmt/format.h>

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

void check_apart(const RegionHolders& regions) {
  for (auto a = regions.begin(); a != regions.end(); ++a) {
    for (auto b = std::next(a); b != regions.end(); ++b) {
      if (a->first.intersect(b->first)) {
        throw_error(ErrorCode::kInvalidArgument,
                    "source regions {} and {} overlap partly; replicas must hold equal regions",
                    to_string(a->first), to_string(b->first));
      }
    }
  }
}

void check_one_term_each(const ShardMap& source, std::span<const ShardMap> addends) {
  std::map<DeviceId, std::size_t> term_of;
  for (std::size_t term = 0; term <= addends.size(); ++term) {
    for (const Shard& shard : (term == 0 ? source : addends[term - 1]).shards) {
      const auto [at, fresh] = term_of.try_emplace(shard.device, term);
      if (!fresh && at->second != term) {
        throw_error(
            ErrorCode::kInvalidArgument,
            "device {} holds terms {} and {} of a sum, but may hold only one; add its terms "
            "on the device first",
            shard.device, at->second, term);
      }
    }
  }
}

/// Cuts the slices further by the regions of one more term.
std::vector<SumSlice> cut_by(const std::vector<SumSlice>& slices, const ShardMap& addend,
                             std::size_t term) {
  const RegionHolders regions = by_region(addend);
  check_apart(regions);
  std::vector<SumSlice> result;
  for (const SumSlice& slice : slices) {
    std::int64_t covered = 0;
    for (const auto& [region, holders] : regions) {
      const auto overlap = slice.region.intersect(region);
      if (!overlap) continue;
      covered += overlap->num_elements();
      SumSlice& part = result.emplace_back(slice);
      part.region = *overlap;
      part.holders.push_back(holders);
    }
    if (covered != slice.region.num_elements()) {
      throw_error(ErrorCode::kInvalidArgument,
                  "term {} of a sum holds only {} of the {} elements of {}", term, covered,
                  slice.region.num_elements(), to_string(slice.region));
    }
  }
  return result;
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
  check_apart(sources);
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

std::vector<SumSlice> cut_sum_slices(const ShardMap& source, std::span<const ShardMap> addends,
                                     const ShardMap& destination) {
  std::vector<SumSlice> slices;
  for (const Slice& slice : cut_slices(source, destination)) {
    SumSlice& sum = slices.emplace_back(SumSlice{slice.region, {slice.holders}, slice.receivers});
    sum.receivers.insert(sum.receivers.end(), slice.local.begin(), slice.local.end());
    std::sort(sum.receivers.begin(), sum.receivers.end());
  }
  for (std::size_t i = 0; i < addends.size(); ++i) {
    addends[i].validate(fmt::format("addend {}", i));
    if (addends[i].shape != source.shape) {
      throw_error(ErrorCode::kInvalidArgument, "a sum of tensors of shapes {} and {}",
                  weft::to_string(source.shape), weft::to_string(addends[i].shape));
    }
    slices = cut_by(slices, addends[i], i + 1);
  }
  check_one_term_each(source, addends);
  return slices;
}

}  // namespace weft::transfer
