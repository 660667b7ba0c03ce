// Recovery of a PipelineExecutor: replaces dead devices and restores the training state.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "mesh/executor/pipeline_executor.h"

namespace weft::mesh {

/// Continues with some new devices. The others keep their memory.
void PipelineExecutor::reconnect_devices() {
  const DeviceNumbering numbering = number_devices(layout_, devices_.places());
  driver_.reset();  // closes its connections first
  driver_ = devices_.open(numbering, options_.device);
  ledger_.clear();
  ParallelConfig layout = plan_.layout;
  layout.device_places = find_gpus();
  const bool moved = plan_.hosts != numbering.hosts || plan_.topology != numbering.topology ||
                     plan_.layout.device_places != layout.device_places;
  if (moved) {
    TrainingPlan plan = make_training_plan(layout, model_, devices_.places());
    plan.no_copies_reason = std::move(plan_.no_copies_reason);
    plan.no_snapshots_reason = std::move(plan_.no_snapshots_reason);
    plan_ = std::move(plan);
    outdated_ = all_devices();
    checkpoint_ = plan_.checkpoint;
  }
  open_communicators(devices_.meshes(), plan_, ledger_);
  for (const auto* programs : plan_.all_programs()) install(*programs, On::kOutdatedDevices);
  outdated_.clear();
  measure_clocks();
  traces_.clear();
}

bool PipelineExecutor::recovers_from(const Error& error) const {
  return recovery_.recovers_from(error);
}

PipelineExecutor::Recovered PipelineExecutor::recover(const Error& why) {
  cancel_replication();
  std::set<std::string> hosts;
  const auto connect = [&] {
    guarded([&] {
      devices_.find_devices();
      for (const transfer::DeviceId device : devices_.new_devices()) {
        hosts.insert(devices_.host_of(device));
        outdated_.insert(device);
        for (Snapshot& snapshot : snapshots_) snapshot.missing_devices.insert(device);
      }
      if (begun_) reconnect_devices();
      else begin({});
    });
  };
  const auto mended = recovery_.recover(why, devices_, connect);
  Recovered recovered{mended.cause, fmt::format("{}", fmt::join(hosts, ", ")), mended.restart,
                      mended.most};
  if (const auto slot = newest_snapshot()) recovered.kept_step = snapshots_[*slot].step;
  return recovered;
}

/// Checks the newest slot first. A slot counts if fetch programs for new devices compile.
std::optional<std::size_t> PipelineExecutor::newest_snapshot() const {
  std::array<std::size_t, InMemoryCheckpoint::kSlots> slots{};
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::sort(slots, std::greater(), [&](std::size_t slot) { return snapshots_[slot].step; });
  for (const std::size_t slot : slots)
    if (snapshots_[slot].step > 0 && fetch_of(slot)) return slot;
  return std::nullopt;
}

std::optional<std::vector<Program>> PipelineExecutor::fetch_of(std::size_t slot) const {
  const Snapshot& snapshot = snapshots_[slot];
  return compile_fetch(plan_.partition, plan_.topology, snapshot.groups, slot, snapshot.on_backups,
                       snapshot.missing_devices);
}

void PipelineExecutor::run_programs(const std::vector<Program>& programs, std::string what) {
  StepRequest request;
  request.program = programs.front().name;
  request.execution_number = ++runs_;
  run_step(request, watch(request, std::move(what), &programs));
}

void PipelineExecutor::snapshot_state(std::int64_t steps_done) {
  if (plan_.snapshots.empty() || options_.recovery.copy_every == 0) return;
  guarded([&] {
    finish_replication();
    start_replication();
    snapshot_due_ = snapshot_due_ || steps_done % options_.recovery.copy_every == 0;
    // Slow links get fewer copies: the last one must have arrived.
    if (!snapshot_due_ || replication_due_ || replicating_) return;
    const std::size_t slot = snapshots_[0].step <= snapshots_[1].step ? 0 : 1;
    snapshots_[slot] = {};
    publish_manifest();  // before the slot is overwritten
    run_programs(plan_.snapshots.slots[slot].snapshot, "the copy for recovery");
    snapshots_[slot] = {steps_done, !plan_.snapshots.has_backups(), plan_.snapshots.groups, {}};
    publish_manifest();
    snapshot_due_ = false;
    if (plan_.snapshots.has_backups()) replication_due_ = slot;
    start_replication();
  });
}

void PipelineExecutor::start_replication() {
  if (!replication_due_) return;
  const std::unique_lock lock(beside_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // a checkpoint batch is running; try again after the next step
  StepRequest request;
  request.program = plan_.snapshots.slots[*replication_due_].replicate_to_backup.front().name;
  request.execution_number = ++runs_;
  replication_.emplace(
      devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run_in_background>(request));
  replication_request_ = request;
  replicating_ = std::exchange(replication_due_, std::nullopt);
}

void PipelineExecutor::finish_replication() {
  if (!replicating_) return;
  const std::unique_lock lock(beside_, std::try_to_lock);
  if (!lock.owns_lock() || !replication_->ready()) return;
  replication_->get();
  replication_.reset();
  snapshots_[*std::exchange(replicating_, std::nullopt)].on_backups = true;
  publish_manifest();
}

void PipelineExecutor::cancel_replication() {
  const std::lock_guard lock(beside_);
  if (replication_) replication_->cancel();
  replication_.reset();
  replicating_.reset();
  replication_due_.reset();
}

void PipelineExecutor::discard_snapshots() {
  cancel_replication();
  snapshots_ = {};
  publish_manifest();
}

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

void PipelineExecutor::publish_manifest() {
  SnapshotManifest note{++notes_,
                        digest_of(plan_.snapshots.groups),
                        {},
                        plan_.no_copies_reason,
                        plan_.no_snapshots_reason};
  for (const Snapshot& snapshot : snapshots_) {
    // Slots kept by other groups are only complete with state that this process alone has.
    const bool whole =
        snapshot.groups == plan_.snapshots.groups && snapshot.missing_devices.empty();
    note.slots.push_back({whole ? snapshot.step : 0, snapshot.on_backups});
  }
  devices_.all().tell<&DeviceActor::store_note>(note);
}

void PipelineExecutor::fetch_manifest() {
  SnapshotManifest newest;
  const auto notes = devices_.all().call<&DeviceActor::load_note>().get();
  for (std::uint32_t i = 0; i < notes.size(); ++i) {
    if (notes[i].number > newest.number) newest = notes[i];
    // A new device has no kept state.
    if (notes[i].number == 0) outdated_.insert(transfer::DeviceId(i));
  }
  notes_ = newest.number;
  if (newest.number > 0) adopted_manifest_ = std::move(newest);
}

void PipelineExecutor::adopt_snapshots(const SnapshotManifest& note) {
  if (!note.no_snapshots_reason.empty()) drop_kept_state(plan_, note.no_snapshots_reason);
  if (!note.no_copies_reason.empty()) drop_checkpoint_copies(plan_, note.no_copies_reason);
  const MeshPlaces& before = devices_.adopted_places();
  if (plan_.snapshots.empty() || before.empty()) return;
  const std::vector<ReplicaGroup> groups =
      before == devices_.places() ? plan_.snapshots.groups
                                  : make_training_plan(layout_, model_, before).snapshots.groups;
  if (digest_of(groups) != note.groups) return;
  for (std::size_t slot = 0; slot < std::min(snapshots_.size(), note.slots.size()); ++slot)
    if (note.slots[slot].step > 0)
      snapshots_[slot] = {note.slots[slot].step, note.slots[slot].on_backups, groups, outdated_};
}

void PipelineExecutor::restore_snapshot() {
  guarded([&] {
    const std::size_t slot = newest_snapshot().value();
    Snapshot& snapshot = snapshots_[slot];
    if (!snapshot.missing_devices.empty()) {
      const std::vector<Program> fetch = fetch_of(slot).value();
      install(fetch);
      run_programs(fetch, "restoring the state of new devices");
    }
    run_programs(plan_.snapshots.slots[slot].restore_from_snapshot, "restoring the state");
    const bool on_backups = snapshot.on_backups && snapshot.missing_devices.empty() &&
                            snapshot.groups == plan_.snapshots.groups;
    snapshots_[1 - slot] = {};
    snapshot = {
        snapshot.step, on_backups || !plan_.snapshots.has_backups(), plan_.snapshots.groups, {}};
    publish_manifest();
    if (!snapshot.on_backups) replication_due_ = slot;
    start_replication();
  });
}

void PipelineExecutor::reset_parameters() {
  discard_snapshots();
  guarded([&] { initialize(); });
}

}  // namespace weft::mesh
