#include "mesh/executor/internal/snapshot_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/base/sha256.h"

namespace weft::mesh {
namespace {

std::string digest_of(const std::vector<ReplicaGroup>& groups) {
  std::string text;
  for (const ReplicaGroup& group : groups) {
    for (const transfer::DeviceId device : group.devices) text += fmt::format("{} ", device);
    if (group.backup_device) text += fmt::format("> {} ", *group.backup_device);
    text += fmt::format("{}\n", group.bytes);
  }
  return sha256(std::as_bytes(std::span(text)));
}

}  // namespace

void SnapshotSlots::after_step(std::int64_t steps_done, std::int64_t copy_every) {
  if (programs().empty() || copy_every == 0) return;
  finish_replication();
  start_replication();
  due_ = due_ || steps_done % copy_every == 0;
  // Slow links get fewer copies: the last one must have arrived.
  if (!due_ || replication_due_ || replicating_) return;
  take(slots_[0].step <= slots_[1].step ? 0 : 1, steps_done);
  due_ = false;
  start_replication();
}

void SnapshotSlots::take(std::size_t slot, std::int64_t steps_done) {
  slots_[slot] = {};
  publish_manifest();  // before the slot is overwritten
  runner_.run(programs().slots[slot].snapshot, "the copy for recovery");
  slots_[slot] = {steps_done, !programs().has_backups(), programs().groups, {}};
  publish_manifest();
  if (programs().has_backups()) replication_due_ = slot;
}

void SnapshotSlots::start_replication() {
  if (!replication_due_) return;
  const Program& program = programs().slots[*replication_due_].replicate_to_backup.front();
  // A checkpoint's transfer may be running; the next step tries again.
  if (transfers_.try_replicate(program.name))
    replicating_ = std::exchange(replication_due_, std::nullopt);
}

void SnapshotSlots::finish_replication() {
  if (!replicating_ || !transfers_.try_finish_replication()) return;
  slots_[*std::exchange(replicating_, std::nullopt)].on_backups = true;
  publish_manifest();
}

void SnapshotSlots::cancel_replication() {
  transfers_.cancel_replication();
  replicating_.reset();
  replication_due_.reset();
}

void SnapshotSlots::discard() {
  cancel_replication();
  slots_ = {};
  publish_manifest();
}

void SnapshotSlots::add_device(transfer::DeviceId device) {
  for (SnapshotSlot& slot : slots_) slot.missing_devices.insert(device);
}

/// Checks the newest slot first. A slot counts if fetch programs for new devices compile.
std::optional<std::size_t> SnapshotSlots::newest() const {
  std::array<std::size_t, InMemoryCheckpoint::kSlots> order{};
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater(), [&](std::size_t slot) { return slots_[slot].step; });
  for (const std::size_t slot : order)
    if (slots_[slot].step > 0 && compile_fetch_of(slot)) return slot;
  return std::nullopt;
}

std::int64_t SnapshotSlots::newest_step() const {
  const std::optional<std::size_t> slot = newest();
  return slot ? slots_[*slot].step : 0;
}

std::optional<std::vector<Program>> SnapshotSlots::compile_fetch_of(std::size_t slot) const {
  const TrainingPlan& plan = installer_.plan();
  return compile_fetch(plan.partition, plan.topology, slots_[slot].groups, slot,
                       slots_[slot].on_backups, slots_[slot].missing_devices);
}

void SnapshotSlots::restore() {
  const std::size_t index = newest().value();
  SnapshotSlot& slot = slots_[index];
  if (!slot.missing_devices.empty()) {
    const std::vector<Program> fetch = compile_fetch_of(index).value();
    installer_.install(fetch);
    runner_.run(fetch, "restoring the state of new devices");
  }
  runner_.run(programs().slots[index].restore_from_snapshot, "restoring the state");
  const bool on_backups =
      slot.on_backups && slot.missing_devices.empty() && slot.groups == programs().groups;
  slots_[1 - index] = {};
  slot = {slot.step, on_backups || !programs().has_backups(), programs().groups, {}};
  publish_manifest();
  if (!slot.on_backups) replication_due_ = index;
  start_replication();
}

void SnapshotSlots::publish_manifest() {
  const TrainingPlan& plan = installer_.plan();
  SnapshotManifest note{++notes_,
                        digest_of(programs().groups),
                        {},
                        plan.decisions.reason_declined(PlanQuestion::kCheckpointCopies),
                        plan.decisions.reason_declined(PlanQuestion::kSnapshots)};
  for (const SnapshotSlot& slot : slots_) {
    // Slots kept by other groups are only complete with state that this process alone has.
    const bool whole = slot.groups == programs().groups && slot.missing_devices.empty();
    note.slots.push_back({whole ? slot.step : 0, slot.on_backups});
  }
  devices_.all().tell<&DeviceActor::store_note>(note);
}

void SnapshotSlots::fetch_manifest() {
  SnapshotManifest newest;
  const auto notes = devices_.all().call<&DeviceActor::load_note>().get();
  for (std::uint32_t i = 0; i < notes.size(); ++i) {
    if (notes[i].number > newest.number) newest = notes[i];
    // A new device has no kept state.
    if (notes[i].number == 0) installer_.mark_outdated(transfer::DeviceId(i));
  }
  notes_ = newest.number;
  if (newest.number > 0) adopted_note_ = std::move(newest);
}

bool SnapshotSlots::adopt() {
  if (!adopted_note_) return false;
  const SnapshotManifest& note = *adopted_note_;
  installer_.drop_copies(note.no_snapshots_reason, note.no_copies_reason);
  const MeshPlaces& before = devices_.adopted_places();
  if (programs().empty() || before.empty()) return true;
  const std::vector<ReplicaGroup> groups =
      before == devices_.places() ? programs().groups : installer_.replica_groups_at(before);
  if (digest_of(groups) != note.groups) return true;
  for (std::size_t i = 0; i < std::min(slots_.size(), note.slots.size()); ++i)
    if (note.slots[i].step > 0)
      slots_[i] = {note.slots[i].step, note.slots[i].on_backups, groups, installer_.outdated()};
  return true;
}

}  // namespace weft::mesh
