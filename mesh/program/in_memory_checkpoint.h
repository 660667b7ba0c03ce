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

/// Group of devices that hold identical parameters and moments.
struct ReplicaGroup {
  std::vector<transfer::DeviceId> devices;
  /// Device in another failure domain that keeps a copy of their state. A domain is a host, or a
  /// device if there is one host only. Absent if the group spans several domains or no other
  /// exists.
  std::optional<transfer::DeviceId> backup_device;
  std::uint64_t bytes = 0;  ///< Size of one device's state.
  friend bool operator==(const ReplicaGroup&, const ReplicaGroup&) = default;
};

/// In-memory checkpoints: training state in host memory, so that a crash of some processes loses
/// few steps. Every device keeps its own state at two points in time, and each shard that is on one
/// host only is also sent to another host.
///
///   keep.0 (between two steps)   parameters, moments ─▶ "kept.0"
///   hold.0 (beside steps)        "kept.0" of the first replica ─▶ "held.0.GROUP" on the backup
///   fetch.0 (compiled on demand) "kept.0" or "held.0.GROUP" ─▶ "kept.0" of a replaced device
///   back.0                       "kept.0" ─▶ parameters, moments, and what ops read
///
/// Slots 0 and 1 alternate: one is complete while the other is filled. Empty if no other process
/// could keep a copy. A value.
struct InMemoryCheckpoint {
  static constexpr std::size_t kSlots = 2;
  struct Slot {
    // Programs by device, without the driver.
    std::vector<Program> snapshot, replicate_to_backup, restore_from_snapshot;
  };
  std::vector<ReplicaGroup> groups;
  std::array<Slot, kSlots> slots;

  bool empty() const { return groups.empty(); }
  /// Returns whether any group has a backup device.
  bool has_backups() const;
};

/// Compiles the programs of in-memory checkpoints. `topology` has the driver as its last device,
/// which takes no part.
InMemoryCheckpoint compile_kept_state(const Partition& partition,
                                      const transfer::Topology& topology);

/// Compiles the programs "fetch.SLOT", which give `missing` devices the state that others kept for
/// these groups: from a replica, or, if `on_backups`, from the backup device. Returns nothing if
/// some missing device's state has no copy left.
std::optional<std::vector<Program>> compile_fetch(const Partition& partition,
                                                  const transfer::Topology& topology,
                                                  const std::vector<ReplicaGroup>& groups,
                                                  std::size_t slot, bool on_backups,
                                                  const std::set<transfer::DeviceId>& missing);

/// Returns the bytes of a device's host memory for its own copies and those of other devices.
std::uint64_t snapshot_bytes(const InMemoryCheckpoint& snapshots, transfer::DeviceId device);

}  // namespace weft::mesh
