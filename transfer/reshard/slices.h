#pragma once

#include <span>
#include <vector>

#include "transfer/reshard/shard_map.h"

namespace weft::transfer {

/// Overlap of one source region with one destination region: the unit of transport.
struct Slice {
  Region region;
  /// Devices whose source shard contains the region, ascending.
  std::vector<DeviceId> holders;
  /// Devices whose destination shard contains the region and that do not hold it, ascending.
  std::vector<DeviceId> receivers;
  /// Devices that hold and need the region. They copy it locally.
  std::vector<DeviceId> local;

  friend bool operator==(const Slice&, const Slice&) = default;
  static constexpr auto fields =
      weft::fields(&Slice::region, &Slice::holders, &Slice::receivers, &Slice::local);
};

/// Cuts a resharding into slices, ordered by destination region, then source region. Example:
/// source rows [0:2) on 0 and [2:4) on 1, destination whole on 1 and 2. The slices are [0:2)
/// 0->{1,2} and [2:4) 1->{2} with 1 local. Throws Error(kInvalidArgument) if shapes differ, source
/// regions overlap partly, or a destination byte has no holder.
std::vector<Slice> cut_slices(const ShardMap& source, const ShardMap& destination);

/// Region of a sum of terms that no term's map cuts further.
struct SumSlice {
  Region region;
  /// Per term, the devices whose shard contains the region, ascending.
  std::vector<std::vector<DeviceId>> holders;
  /// Devices that need the sum, ascending. They may hold a term.
  std::vector<DeviceId> receivers;

  friend bool operator==(const SumSlice&, const SumSlice&) = default;
};

/// Cuts the resharding of source + addends[0] + addends[1] + ... into slices, ordered as in
/// cut_slices() and then by the regions of the addends. Throws Error(kInvalidArgument) as
/// cut_slices() does, for each term, and if a device holds two terms.
std::vector<SumSlice> cut_sum_slices(const ShardMap& source, std::span<const ShardMap> addends,
                                     const ShardMap& destination);

}  // namespace weft::transfer
