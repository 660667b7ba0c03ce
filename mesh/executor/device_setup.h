#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/device/device_config.h"
#include "transfer/nccl/communicator_ledger.h"
#include "transfer/nccl/communicator_set.h"
#include "transfer/wires/data_plane.h"

namespace weft::mesh {

/// What a device actor must know of itself before it can be reached.
struct DeviceSetup {
  transfer::DataPlaneSetup data;
  DeviceConfig config = {};
  /// Which of its machine's devices this is, over all hosts there: its GPU.
  int slot = 0;
  static constexpr auto fields =
      weft::fields(&DeviceSetup::data, &DeviceSetup::config, &DeviceSetup::slot);
};

/// What a driver leaves with the devices of its run, for the one that is started in its place:
/// which slots of KeptState are whole. A value.
struct KeptNote {
  struct Slot {
    std::int64_t step = 0;  ///< Steps done then; 0: it is not whole.
    bool held = false;      ///< Holders have theirs, too.
    static constexpr auto fields = weft::fields(&Slot::step, &Slot::held);
  };
  std::uint64_t number = 0;  ///< Grows with each; 0: there is none.
  std::string groups;        ///< Digest of the groups that the slots were kept as.
  std::vector<Slot> slots;
  // As in the plan: what is not copied, for which nothing is allocated.
  std::string no_copies_because, not_kept_because;
  static constexpr auto fields =
      weft::fields(&KeptNote::number, &KeptNote::groups, &KeptNote::slots,
                   &KeptNote::no_copies_because, &KeptNote::not_kept_because);
};

/// Communicators to end and to create, with what their members share.
struct CommunicatorSetup {
  transfer::CommunicatorChanges changes;
  std::vector<transfer::CommunicatorId> ids;
  static constexpr auto fields = weft::fields(&CommunicatorSetup::changes, &CommunicatorSetup::ids);
};

}  // namespace weft::mesh
