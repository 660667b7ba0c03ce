#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Slices of one or many tensors with equal holders and equal receivers. They travel together.
struct SliceGroup {
  std::vector<DeviceId> holders;  ///< Devices that hold the slices, ascending.
  /// Devices that need the slices and do not hold them, ascending.
  std::vector<DeviceId> receivers;
  std::vector<Segment> segments;
  std::uint64_t bytes = 0;
  std::size_t element_size = 1;  ///< Element size of the first segment.
  /// Index into Demand::data, or kNoDatum if every receiver has a holder on its own host.
  std::uint32_t datum = kNoDatum;
  static constexpr std::uint32_t kNoDatum = 0xffffffff;
};

/// Bundles and copies that a resharding requires, independent of the strategy.
struct ReshardDemand {
  std::vector<SliceGroup> bundles;  ///< Bundles in the order of tensors and slices.
  /// Data of the bundles that cross hosts, merged if holder hosts and receiving hosts are equal.
  std::vector<HostDemand> data;
  std::vector<std::vector<std::uint32_t>> bundles_of;  ///< Per datum, its bundles.
  std::vector<LocalCopy> copies;
};

/// Cuts the `tasks` without addends into slices and collects them. A bundle accepts slices until it
/// has `bundle_bytes`; 0: one slice per bundle. Throws the errors of cut_slices(), and
/// Error(kInvalidArgument) for a device outside `topology` or a map of another shape than its task.
ReshardDemand collect_demand(std::span<const ReshardTask> tasks, const Topology& topology,
                             std::uint64_t bundle_bytes);

/// Sets `data`, `bundles_of` and the bundles' `datum`.
void merge_data(ReshardDemand& demand, const Topology& topology);
/// Returns a lower bound of any plan: each byte enters once each host that needs it and has no
/// holder.
std::uint64_t minimum_between_hosts(const ReshardDemand& demand);

/// Returns the hosts of `devices`, each once, ascending.
std::vector<HostId> hosts_of(const std::vector<DeviceId>& devices, const Topology& topology);
std::vector<DeviceId> on_host(const std::vector<DeviceId>& devices, HostId host,
                              const Topology& topology);

/// Returns bytes [begin, begin + bytes) of the concatenation of `segments`.
std::vector<Segment> cut(std::span<const Segment> segments, std::uint64_t begin,
                         std::uint64_t bytes);

/// Range of a payload.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};
/// Cuts `bytes` into at most `count` pieces of nearly equal size, at multiples of 64.
std::vector<ByteRange> even_pieces(std::uint64_t bytes, std::size_t count);

}  // namespace weft::transfer::internal
