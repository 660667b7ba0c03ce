#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/program/program.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

/// Devices whose parameters and moments are the same, block for block.
struct StateReplicas {
  std::vector<transfer::DeviceId> devices;
  /// Who keeps their state too, on another host; none where they lie on several themselves.
  std::optional<transfer::DeviceId> holder;
  std::uint64_t bytes = 0;  ///< Of one device's state.
  friend bool operator==(const StateReplicas&, const StateReplicas&) = default;
};

/// The state of training in the memory of hosts, so that the death of some loses little: every
/// device has its own of two moments, and each shard that no other host has is sent to one.
///
///   keep.0 (between two steps)   parameters, moments ─▶ "kept.0"
///   hold.0 (beside steps)        "kept.0" of the first replica ─▶ "held.0.GROUP" of the holder
///   fetch.0 (compiled then)      "kept.0" or "held.0.GROUP" ─▶ "kept.0" of a dead one's successor
///   back.0                       "kept.0" ─▶ parameters, moments, and what ops read
///
/// Two slots, 0 and 1, as one is whole while the other is filled. A value. Where no other process
/// could keep anything there is nothing.
struct KeptState {
  static constexpr std::size_t kSlots = 2;
  struct Slot {
    std::vector<Program> keep, hold, back;  ///< By device, without the driver.
  };
  std::vector<StateReplicas> groups;
  std::array<Slot, kSlots> slots;

  bool empty() const { return groups.empty(); }
  bool sends() const;
};

/// `topology` has the driver as its last device, which takes no part.
KeptState compile_kept_state(const Partition& partition, const transfer::Topology& topology);

/// Programs "fetch.SLOT" that give `missing` devices the state that others kept as these groups:
/// replicas, or, where `held` is whole, holders. Nothing where nobody has what one of them needs.
std::optional<std::vector<Program>> compile_fetch(const Partition& partition,
                                                  const transfer::Topology& topology,
                                                  const std::vector<StateReplicas>& groups,
                                                  std::size_t slot, bool held,
                                                  const std::set<transfer::DeviceId>& missing);

/// Bytes of a device's host memory that its own copies and those of others take.
std::uint64_t kept_bytes(const KeptState& kept, transfer::DeviceId device);

}  // namespace weft::mesh
