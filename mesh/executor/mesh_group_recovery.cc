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
      for (const transfer::DeviceId device : devices_.fresh()) {
        hosts.insert(devices_.host_of(device));
        outdated_.insert(device);
        for (Kept& kept : kept_) kept.without.insert(device);
      }
      if (begun_) reconnect_devices();
      else begin({});
    });
  };
  const auto mended = recovery_.recover(why, devices_, connect);
  Recovered recovered{mended.cause, fmt::format("{}", fmt::join(hosts, ", ")), mended.restart,
                      mended.most};
  if (const auto slot = newest_snapshot()) recovered.kept_step = kept_[*slot].step;
  return recovered;
}

/// Checks the newest slot first. A slot counts if fetch programs for new devices compile.
std::optional<std::size_t> PipelineExecutor::newest_snapshot() const {
  std::array<std::size_t, InMemoryCheckpoint::kSlots> slots{};
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::sort(slots, std::greater(), [&](std::size_t slot) { return kept_[slot].step; });
  for (const std::size_t slot : slots)
    if (kept_[slot].step > 0 && fetch_of(slot)) return slot;
  return std::nullopt;
}

std::optional<std::vector<Program>> PipelineExecutor::fetch_of(std::size_t slot) const {
  const Kept& kept = kept_[slot];
  return compile_fetch(plan_.partition, plan_.topology, kept.groups, slot, kept.held, kept.without);
}

void PipelineExecutor::run_programs(const std::vector<Program>& programs, std::string what) {
  StepRequest request;
  request.program = programs.front().name;
  request.run = ++runs_;
  run_step(request, watch(request, std::move(what), &programs));
}

void PipelineExecutor::snapshot_state(std::int64_t steps_done) {
  if (plan_.kept.empty() || options_.recovery.copy_every == 0) return;
  guarded([&] {
    finish_replication();
    start_replication();
    keep_due_ = keep_due_ || steps_done % options_.recovery.copy_every == 0;
    // Slow links get fewer copies: the last one must have arrived.
    if (!keep_due_ || hold_due_ || holding_) return;
    const std::size_t slot = kept_[0].step <= kept_[1].step ? 0 : 1;
    kept_[slot] = {};
    publish_manifest();  // before the slot is overwritten
    run_programs(plan_.kept.slots[slot].keep, "the copy for recovery");
    kept_[slot] = {steps_done, !plan_.kept.sends(), plan_.kept.groups, {}};
    publish_manifest();
    keep_due_ = false;
    if (plan_.kept.sends()) hold_due_ = slot;
    start_replication();
  });
}

void PipelineExecutor::start_replication() {
  if (!hold_due_) return;
  const std::unique_lock lock(beside_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // a checkpoint batch is running; try again after the next step
  StepRequest request;
  request.program = plan_.kept.slots[*hold_due_].hold.front().name;
  request.run = ++runs_;
  hold_.emplace(
      devices_.all().within(actors::kNoDeadline).call<&DeviceActor::run_in_background>(request));
  hold_request_ = request;
  holding_ = std::exchange(hold_due_, std::nullopt);
}

void PipelineExecutor::finish_replication() {
  if (!holding_) return;
  const std::unique_lock lock(beside_, std::try_to_lock);
  if (!lock.owns_lock() || !hold_->ready()) return;
  hold_->get();
  hold_.reset();
  kept_[*std::exchange(holding_, std::nullopt)].held = true;
  publish_manifest();
}

void PipelineExecutor::cancel_replication() {
  const std::lock_guard lock(beside_);
  if (hold_) hold_->cancel();
  hold_.reset();
  holding_.reset();
  hold_due_.reset();
}

void PipelineExecutor::discard_snapshots() {
  cancel_replication();
  kept_ = {};
  publish_manifest();
}

namespace {

std::string digest_of(const std::vector<ReplicaGroup>& groups) {
  std::string text;
  for (const ReplicaGroup& group : groups) {
    for (const transfer::DeviceId device : group.devices) text += fmt::format("{} ", device);
    if (group.holder) text += fmt::format("> {} ", *group.holder);
    text += fmt::format("{}\n", group.bytes);
  }
  return sha256(std::as_bytes(std::span(text)));
}

}  // namespace

void PipelineExecutor::publish_manifest() {
  SnapshotManifest note{++notes_,
                        digest_of(plan_.kept.groups),
                        {},
                        plan_.no_copies_reason,
                        plan_.no_snapshots_reason};
  for (const Kept& kept : kept_) {
    // Slots kept by other groups are only complete with state that this process alone has.
    const bool whole = kept.groups == plan_.kept.groups && kept.without.empty();
    note.slots.push_back({whole ? kept.step : 0, kept.held});
  }
  devices_.all().tell<&DeviceActor::remember>(note);
}

void PipelineExecutor::fetch_manifest() {
  SnapshotManifest newest;
  const auto notes = devices_.all().call<&DeviceActor::recall>().get();
  for (std::uint32_t i = 0; i < notes.size(); ++i) {
    if (notes[i].number > newest.number) newest = notes[i];
    // A new device has no kept state.
    if (notes[i].number == 0) outdated_.insert(transfer::DeviceId(i));
  }
  notes_ = newest.number;
  if (newest.number > 0) inherited_ = std::move(newest);
}

void PipelineExecutor::inherit(const SnapshotManifest& note) {
  if (!note.no_snapshots_reason.empty()) drop_kept_state(plan_, note.no_snapshots_reason);
  if (!note.no_copies_reason.empty()) drop_checkpoint_copies(plan_, note.no_copies_reason);
  const MeshPlaces& before = devices_.adopted_places();
  if (plan_.kept.empty() || before.empty()) return;
  const std::vector<ReplicaGroup> groups =
      before == devices_.places() ? plan_.kept.groups
                                  : make_training_plan(layout_, model_, before).kept.groups;
  if (digest_of(groups) != note.groups) return;
  for (std::size_t slot = 0; slot < std::min(kept_.size(), note.slots.size()); ++slot)
    if (note.slots[slot].step > 0)
      kept_[slot] = {note.slots[slot].step, note.slots[slot].held, groups, outdated_};
}

void PipelineExecutor::restore_snapshot() {
  guarded([&] {
    const std::size_t slot = newest_snapshot().value();
    Kept& kept = kept_[slot];
    if (!kept.without.empty()) {
      const std::vector<Program> fetch = fetch_of(slot).value();
      install(fetch);
      run_programs(fetch, "the restoration of devices that are new");
    }
    run_programs(plan_.kept.slots[slot].back, "the restoration of the state");
    const bool held = kept.held && kept.without.empty() && kept.groups == plan_.kept.groups;
    kept_[1 - slot] = {};
    kept = {kept.step, held || !plan_.kept.sends(), plan_.kept.groups, {}};
    publish_manifest();
    if (!kept.held) hold_due_ = slot;
    start_replication();
  });
}

void PipelineExecutor::reset_parameters() {
  discard_snapshots();
  guarded([&] { initialize(); });
}

}  // namespace weft::mesh
