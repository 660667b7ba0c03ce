#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "mesh/executor/internal/background_transfers.h"
#include "mesh/executor/internal/plan_installer.h"
#include "mesh/executor/internal/program_runner.h"

namespace weft::mesh {

/// The two slots of InMemoryCheckpoint on the devices, as the driver knows them: fills them between
/// steps, sends them to backup devices beside steps, and restores the state after a recovery.
///
///   empty ── take ──▶ on own devices ── replication ──▶ on backups too
///
/// Leaves a note of the complete slots with all devices (SnapshotManifest), from which a restarted
/// driver continues. One thread at a time. Borrows all.
class SnapshotSlots final {
 public:
  SnapshotSlots(const DeviceGroup& devices, PlanInstaller& installer, ProgramRunner& runner,
                BackgroundTransfers& transfers)
      : devices_(devices), installer_(installer), runner_(runner), transfers_(transfers) {}

  /// Call after every step. Takes a snapshot every `copy_every` steps, or later if the last one has
  /// not reached the backup devices yet.
  void after_step(std::int64_t steps_done, std::int64_t copy_every);
  /// Returns the steps done in the newest state that all devices can obtain; 0: none.
  std::int64_t newest_step() const;
  /// Sets the devices' state to the newest one. newest_step() must not be 0.
  void restore();
  /// Forgets all snapshots, as the state is set from elsewhere.
  void discard();

  /// Cancels the transfer to backup devices, if any.
  void cancel_replication();
  /// Records that a device was added, which has no snapshots.
  void add_device(transfer::DeviceId device);
  /// Reads the note that the previous driver left, if any. Marks devices without a note as
  /// outdated.
  void fetch_manifest();
  /// Takes over the slots of that note, and drops the copies that it rules out. Call once the plan
  /// is made. Returns false if there was no note.
  bool adopt();
  /// Leaves a note of the complete slots with all devices.
  void publish_manifest();

 private:
  struct SnapshotSlot {
    std::int64_t step = 0;               ///< Steps done when the slot was filled; 0: empty.
    bool on_backups = false;             ///< True if the backup devices' copies are complete too.
    std::vector<ReplicaGroup> groups{};  ///< Replica groups of that time.
    std::set<transfer::DeviceId> missing_devices{};  ///< Devices added since then, which lack it.
  };
  const InMemoryCheckpoint& programs() const { return installer_.plan().snapshots; }
  /// Returns the slot with the newest state that all devices can obtain, or nothing.
  std::optional<std::size_t> newest() const;
  /// Returns the programs that give the slot's state to devices that lack it, or nothing if some
  /// state has no copy left.
  std::optional<std::vector<Program>> compile_fetch_of(std::size_t slot) const;
  void take(std::size_t slot, std::int64_t steps_done);
  /// Starts the due replication, unless a background transfer is running.
  void start_replication();
  /// Sets on_backups of the slot once its replication is complete.
  void finish_replication();

  const DeviceGroup& devices_;
  PlanInstaller& installer_;
  ProgramRunner& runner_;
  BackgroundTransfers& transfers_;
  std::array<SnapshotSlot, InMemoryCheckpoint::kSlots> slots_;
  bool due_ = false;  ///< True if a snapshot should be taken as soon as possible.
  std::optional<std::size_t> replication_due_;  ///< Slot to be sent to backups.
  std::optional<std::size_t> replicating_;      ///< Slot being sent to backups.
  std::uint64_t notes_ = 0;  ///< Number of the last note, over all drivers of the run.
  std::optional<SnapshotManifest> adopted_note_;
};

}  // namespace weft::mesh
