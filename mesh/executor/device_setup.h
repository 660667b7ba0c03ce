#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/device/device_config.h"
#include "transfer/nccl/communicator_cache.h"
#include "transfer/nccl/communicator_set.h"
#include "transfer/wires/data_plane.h"

namespace weft::mesh {

/// Settings that a device actor needs before it can be reached.
struct DeviceSetup {
  transfer::DataPlaneSetup data;
  DeviceConfig config = {};
  /// Index of the device among all devices of its machine, over all hosts. Selects the GPU.
  int slot = 0;
  static constexpr auto fields =
      weft::fields(&DeviceSetup::data, &DeviceSetup::config, &DeviceSetup::slot);
};

/// Note that a driver leaves with its devices for a restarted driver: which slots of
/// InMemoryCheckpoint are complete. A value.
struct SnapshotManifest {
  struct SlotEntry {
    std::int64_t step = 0;    ///< Steps done when the slot was filled; 0: incomplete.
    bool on_backups = false;  ///< True if the backup devices' copies are complete too.
    static constexpr auto fields = weft::fields(&SlotEntry::step, &SlotEntry::on_backups);
  };
  std::uint64_t number = 0;  ///< Grows with each note; 0: no note.
  std::string groups;        ///< Digest of the replica groups of the slots.
  std::vector<SlotEntry> slots;
  // Reasons from the plan. Copies that it rules out are not allocated.
  std::string no_copies_reason, no_snapshots_reason;
  static constexpr auto fields =
      weft::fields(&SnapshotManifest::number, &SnapshotManifest::groups, &SnapshotManifest::slots,
                   &SnapshotManifest::no_copies_reason, &SnapshotManifest::no_snapshots_reason);
};

/// Communicators to destroy and to create, and the ids that their members share.
struct CommunicatorSetup {
  transfer::CommunicatorChanges changes;
  std::vector<transfer::CommunicatorId> ids;
  static constexpr auto fields = weft::fields(&CommunicatorSetup::changes, &CommunicatorSetup::ids);
};

}  // namespace weft::mesh
