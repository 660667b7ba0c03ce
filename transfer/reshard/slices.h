#pragma once

#include <span>
#include <vector>

#include "transfer/reshard/shard_map.h"

namespace weft::transfer {

/// The overlap of one source region with one destination region: the unit that travels.
struct Slice {
  Region region;
  /// All devices whose source shard contains the region, ascending.
  std::vector<DeviceId> holders;
  /// The devices whose destination shard contains it and that do not hold it, ascending.
  std::vector<DeviceId> receivers;
  /// The devices that hold it and want it: they copy locally.
  std::vector<DeviceId> local;

  friend bool operator==(const Slice&, const Slice&) = default;
  static constexpr auto fields =
      weft::fields(&Slice::region, &Slice::holders, &Slice::receivers, &Slice::local);
};

/// Cuts a resharding into slices, ordered by destination region, then source region.
/// Source rows [0:2) on 0, [2:4) on 1; destination whole on 1 and 2: slices [0:2) 0->{1,2} and
/// [2:4) 1->{2} with 1 local.
/// Throws Error(kInvalidArgument) when shapes differ, source regions overlap partly, or a
/// destination byte has no holder.
std::vector<Slice> cut_slices(const ShardMap& source, const ShardMap& destination);

/// A region of a sum of terms: between the cuts of all the terms' maps.
struct SumSlice {
  Region region;
  /// Per term, the devices whose shard of it contains the region, ascending.
  std::vector<std::vector<DeviceId>> holders;
  /// The devices that want it, ascending; they may hold a term.
  std::vector<DeviceId> receivers;

  friend bool operator==(const SumSlice&, const SumSlice&) = default;
};

/// Cuts the resharding of source + addends[0] + addends[1] + ... into slices, ordered as those of
/// cut_slices() and then by the regions of the addends. Throws Error(kInvalidArgument) as
/// cut_slices() does, for each term, and when a device is in two of them.
std::vector<SumSlice> cut_sum_slices(const ShardMap& source, std::span<const ShardMap> addends,
                                     const ShardMap& destination);

}  // namespace weft::transfer
