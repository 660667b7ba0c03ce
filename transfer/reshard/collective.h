#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/flow/device_part.h"
#include "transfer/reshard/shard_map.h"

namespace weft::transfer {

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };
/// Returns "all_reduce", "reduce_scatter" or "all_gather".
std::string_view to_string(CollectiveKind kind);

struct CollectiveOptions {
  ChunkOptions chunks;
  /// Limit of the bytes that each rank sends in a one-hop collective, in which every rank sends to
  /// every other. Larger collectives work in pieces.
  std::uint64_t max_one_hop_bytes = 128 * 1024;
  /// Chunk size, in bytes, of flows that rotate over the other ranks. Wires send such small chunks
  /// eagerly. Larger ones need a rendezvous, whose request waits behind queued data on a full link.
  std::uint64_t rotation_chunk_bytes = 64 * 1024;
  /// Number of chunks of a rotating flow in flight, and number of ranks that a device sends to at a
  /// time. The total in flight to a rank is about the buffer that a switch has for it.
  std::uint32_t rotation_window = 4;
  std::uint32_t rotation_width = 8;

  friend bool operator==(const CollectiveOptions&, const CollectiveOptions&) = default;
  static constexpr auto fields =
      weft::fields(&CollectiveOptions::chunks, &CollectiveOptions::max_one_hop_bytes,
                   &CollectiveOptions::rotation_chunk_bytes, &CollectiveOptions::rotation_window,
                   &CollectiveOptions::rotation_width);
};

/// Flows and reductions by which a group of devices performs a collective on one tensor. A pure
/// value.
///
/// Sums are taken in rank order. So their bits depend neither on the order of arrival nor on the
/// summing device, and all ranks get the same bits.
struct CollectivePlan {
  struct Rank {
    DeviceId device;
    Region source;
    Region destination;
    std::vector<Region> copies;
    std::vector<Reduction> reductions;
    friend bool operator==(const Rank&, const Rank&) = default;
    static constexpr auto fields = weft::fields(&Rank::device, &Rank::source, &Rank::destination,
                                                &Rank::copies, &Rank::reductions);
  };

  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  std::vector<Rank> ranks;
  std::vector<Flow> flows;
  /// Number of flows of a device that send to other hosts at a time. 0: as EgressLimit says.
  std::uint32_t egress_slots = 0;

  /// Returns the part of `device`; empty() if it is not in the group.
  DevicePart device_part(DeviceId device) const;
  /// Returns the bytes that cross between hosts.
  std::uint64_t bytes_between_hosts(const Topology& topology) const;
  /// Returns the SHA-256 of the encoded plan.
  std::string digest() const;

  friend bool operator==(const CollectivePlan&, const CollectivePlan&) = default;
  static constexpr auto fields =
      weft::fields(&CollectivePlan::kind, &CollectivePlan::dtype, &CollectivePlan::ranks,
                   &CollectivePlan::flows, &CollectivePlan::egress_slots);
};

/// Formats the plan as a headline and a line per flow.
std::string to_string(const CollectivePlan& plan);

/// Plans an all-reduce. Every rank has the same box as source and as destination, which may be the
/// same memory; the result is term 0 (+) term 1 (+) ... In a large all-reduce, all ranks send piece
/// j of the box to rank j, which reduces it and sends the result to all, chunk by chunk. In the
/// parts, the box is flat: source and destination are [0:elements]. Throws Error(kInvalidArgument)
/// for u8, an empty group, or a device that appears twice.
CollectivePlan plan_all_reduce(DType dtype, const Region& box, const std::vector<DeviceId>& ranks,
                               const Topology& topology, ReduceOp op = ReduceOp::kSum,
                               const CollectiveOptions& options = {});

/// Plans a reduce-scatter. Every rank has `box` as source; rank i gets its own region of it,
/// reduced over all ranks. Regions must lie inside the box. Throws as plan_all_reduce() does.
CollectivePlan plan_reduce_scatter(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                                   const Topology& topology, ReduceOp op = ReduceOp::kSum,
                                   const CollectiveOptions& options = {});

/// Plans an all-gather. Rank i has its own region as source and gets all of `box`. Throws
/// Error(kInvalidArgument) unless the regions fill the box without overlap.
CollectivePlan plan_all_gather(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                               const Topology& topology, const CollectiveOptions& options = {});

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::CollectiveKind> {
  static constexpr auto kValue = weft::transfer::CollectiveKind::kAllGather;
};
