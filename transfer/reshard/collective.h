#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/flow/device_part.h"
#include "transfer/reshard/shard_map.h"

namespace weft::transfer {

enum class CollectiveKind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };
/// "all_reduce", "reduce_scatter", "all_gather".
std::string_view to_string(CollectiveKind kind);

struct CollectiveOptions {
  ChunkOptions chunks;
  /// A collective in which each rank would send at most this many bytes in all takes one hop:
  /// everybody sends to everybody.
  std::uint64_t one_hop_bytes = 128 * 1024;
  /// Chunk of a flow that takes turns with those to other ranks. Wires send so little at once; what
  /// is larger asks first, and on a full link the question waits behind what is queued.
  std::uint64_t turn_chunk_bytes = 64 * 1024;
  /// Chunks of such a flow that may be under way, and to how many ranks at a time. What is in sum
  /// on the way to a rank is about what a switch can hold for it.
  std::uint32_t turn_window = 4;
  std::uint32_t turns_at_a_time = 8;

  friend bool operator==(const CollectiveOptions&, const CollectiveOptions&) = default;
  static constexpr auto fields =
      weft::fields(&CollectiveOptions::chunks, &CollectiveOptions::one_hop_bytes,
                   &CollectiveOptions::turn_chunk_bytes, &CollectiveOptions::turn_window,
                   &CollectiveOptions::turns_at_a_time);
};

/// What a group of devices does together with one tensor, as flows and reductions in rank order. A
/// pure value.
///
/// Sums are taken in rank order, so their bits depend neither on arrival nor on who sums, and all
/// ranks get the same ones.
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
  /// How many flows of a device send to other hosts at a time; 0: as many as EgressRule says.
  std::uint32_t egress_places = 0;

  /// What `device` has to do; empty() if it is not in the group.
  DevicePart device_part(DeviceId device) const;
  /// Bytes that cross between hosts.
  std::uint64_t bytes_between_hosts(const Topology& topology) const;
  /// SHA-256 over the encoded plan.
  std::string digest() const;

  friend bool operator==(const CollectivePlan&, const CollectivePlan&) = default;
  static constexpr auto fields =
      weft::fields(&CollectivePlan::kind, &CollectivePlan::dtype, &CollectivePlan::ranks,
                   &CollectivePlan::flows, &CollectivePlan::egress_places);
};

/// A headline and a line per flow.
std::string to_string(const CollectivePlan& plan);

/// Every rank has the same box as source and gets term 0 (+) term 1 (+) ... of it as destination,
/// which may be the same memory. Large ones: piece j of the box goes from all ranks to rank j,
/// which reduces it and sends the result to all, chunk by chunk. In the part, the box is flat:
/// source and destination are [0:elements]. Throws Error(kInvalidArgument) for u8, an empty group,
/// or a device that comes twice.
CollectivePlan plan_all_reduce(DType dtype, const Region& box, const std::vector<DeviceId>& ranks,
                               const Topology& topology, ReduceOp op = ReduceOp::kSum,
                               const CollectiveOptions& options = {});

/// Every rank has `box` as source; rank i gets its own region of it, reduced over all ranks.
/// Regions must lie inside the box.
CollectivePlan plan_reduce_scatter(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                                   const Topology& topology, ReduceOp op = ReduceOp::kSum,
                                   const CollectiveOptions& options = {});

/// Rank i has its own region as source and gets all of `box`; the regions must fill the box without
/// overlap.
CollectivePlan plan_all_gather(DType dtype, const Region& box, const std::vector<Shard>& ranks,
                               const Topology& topology, const CollectiveOptions& options = {});

}  // namespace weft::transfer

template <>
struct weft::last_enumerator<weft::transfer::CollectiveKind> {
  static constexpr auto kValue = weft::transfer::CollectiveKind::kAllGather;
};
