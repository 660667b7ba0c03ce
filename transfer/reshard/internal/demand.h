#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Slices of one or many tensors that the same devices hold and the same devices want: they travel
/// together.
struct Bundle {
  std::vector<DeviceId> holders;    ///< Ascending.
  std::vector<DeviceId> receivers;  ///< Ascending; none of them holds it.
  std::vector<Segment> segments;
  std::uint64_t bytes = 0;
  std::size_t element_size = 1;  ///< Of the first segment.
  /// Index into Demand::data, or kNoDatum when every receiver has a holder on its own host.
  std::uint32_t datum = kNoDatum;
  static constexpr std::uint32_t kNoDatum = 0xffffffff;
};

/// What a resharding asks for, with strategies still to come.
struct Demand {
  std::vector<Bundle> bundles;  ///< In the order of tensors and slices.
  /// Bundles with equal holder hosts and equal wanting hosts, merged.
  std::vector<Datum> data;
  std::vector<std::vector<std::uint32_t>> bundles_of;  ///< Per datum.
  std::vector<LocalCopy> copies;
};

/// Cuts the `tasks` that have no addends into slices and collects them. A bundle takes no more
/// slices once it has `bundle_bytes`; 0: one slice each. Throws what cut_slices throws, and
/// Error(kInvalidArgument) for a device outside `topology` or a map that is not of its task's
/// shape.
Demand gather(std::span<const ReshardTask> tasks, const Topology& topology,
              std::uint64_t bundle_bytes);

/// Fills in the data of a demand's bundles.
void merge_data(Demand& demand, const Topology& topology);
/// No plan can do with less: each byte enters each host that wants it and has no holder, once.
std::uint64_t minimum_between_hosts(const Demand& demand);

/// The hosts of `devices`, each once, ascending.
std::vector<HostId> hosts_of(const std::vector<DeviceId>& devices, const Topology& topology);
std::vector<DeviceId> on_host(const std::vector<DeviceId>& devices, HostId host,
                              const Topology& topology);

/// Bytes [begin, begin + bytes) of the concatenation of `segments`.
std::vector<Segment> cut(std::span<const Segment> segments, std::uint64_t begin,
                         std::uint64_t bytes);

/// A range of a payload.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};
/// `bytes` cut into at most `count` pieces of nearly equal size, at multiples of 64.
std::vector<ByteRange> even_pieces(std::uint64_t bytes, std::size_t count);

}  // namespace weft::transfer::internal
