#include "actors/head/owner_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "actors/head/head_notifications.h"
#include "actors/system/system.h"

namespace weft::actors {
namespace {

/// Time for the next driver to register. `weft run` starts it when it has reaped the one before.
constexpr Nanoseconds kDriverRestartsWithin = std::chrono::seconds(20);

/// Failures of meshes in one message, each with the end of a log.
constexpr std::ptrdiff_t kFailuresPerCall = 256;

std::string row_name(ProcessId process) { return std::to_string(process.value()); }

}  // namespace

void OwnerTable::save(const Owner& owner) {
  store_.put(StateStore::Table::kOwners, row_name(owner.process.id),
             encode(static_cast<const OwnerRow&>(owner)));
}

void OwnerTable::read_rows() {
  const TimePoint now = clock_.now();
  for (const auto& [name, row] : store_.rows(StateStore::Table::kOwners)) {
    Owner owner;
    static_cast<OwnerRow&>(owner) = decode<OwnerRow>(row);
    owner.away_since = now;
    owners_[owner.process.id] = owner;
  }
}

const OwnerTable::Owner* OwnerTable::find(ProcessId process) const {
  const auto found = owners_.find(process);
  return found == owners_.end() ? nullptr : &found->second;
}

bool OwnerTable::answers(ProcessId process) const {
  const Owner* const owner = find(process);
  return owner != nullptr && !owner->away_since;
}

std::optional<std::uint64_t> OwnerTable::registration(ProcessId process) const {
  const Owner* const owner = find(process);
  return owner == nullptr ? std::nullopt : std::optional(owner->registration_count);
}

std::string OwnerTable::name_of(ProcessId process) const {
  const Owner* const owner = find(process);
  return owner == nullptr ? "" : owner->offer.name;
}

std::optional<ProcessRef> OwnerTable::process_of(ProcessId process) const {
  return answers(process) ? std::optional(find(process)->process) : std::nullopt;
}

bool OwnerTable::is_keeper(ProcessId process) const {
  const Owner* const owner = find(process);
  return owner != nullptr && owner->offer.is_keeper;
}

std::optional<ProcessRef> OwnerTable::keeper() const {
  for (const auto& [id, owner] : owners_)
    if (owner.offer.is_keeper && !owner.away_since) return owner.process;
  return std::nullopt;
}

bool OwnerTable::any_away() const {
  return std::ranges::any_of(owners_,
                             [](const auto& of) { return of.second.away_since.has_value(); });
}

std::optional<RunProgress> OwnerTable::progress_of(ProcessId process) const {
  const Owner* const owner = find(process);
  return owner == nullptr ? std::nullopt : owner->progress;
}

void OwnerTable::record_devices(ProcessId owner, const std::vector<RunDevice>& devices) {
  runs_.add_devices(owner, devices);
}

JoinReply OwnerTable::register_owner(const ProcessRef& process, OwnerRegistration offer) {
  const auto known = owners_.find(process.id);
  const bool again = known != owners_.end();
  JoinReply joined{store_.cluster_id(), store_.term(), grace_.count()};
  // The program is ending, and an agent has told this head how.
  if (!again && runs_.has_reported_end(process.id)) return joined;
  std::vector<ProcessId> former;
  if (!again && (offer.replaces_driver || offer.is_keeper)) former = former_drivers(offer);
  offer.name = again ? known->second.offer.name : free_name(offer.name, former);
  Owner& owner = owners_[process.id];
  const std::set<MeshKey> held(offer.held_meshes.begin(), offer.held_meshes.end());
  for (const MeshKey& key : held) store_.raise_mesh_epoch(key.name, key.epoch);
  const std::vector<MeshKey> held_reservations = std::exchange(offer.held_reservations, {});
  offer.held_meshes.clear();
  owner.offer = offer;
  owner.process = process;
  owner.awaits_restart = false;
  ++owner.registration_count;
  const std::optional<TimePoint> away_since = std::exchange(owner.away_since, std::nullopt);
  save(owner);
  replace(former, process.id);
  if (!offer.is_keeper) runs_.begin(process, offer.name, offer.pid);
  if (!again) log_.record(fmt::format("{} (driver pid {}) started", offer.name, offer.pid));
  else if (away_since)
    log_.record(fmt::format("{} (driver pid {}) reconnected after {:.1f} s", offer.name, offer.pid,
                            in_seconds(clock_.now() - *away_since)));
  joined.adopted_meshes = settle_meshes(process, held, again);
  if (again) reservations_.release_unlisted(process.id, held_reservations);
  // Hosts may have begun to leave while this owner was away.
  for (const auto& [name, host] : hosts_.all())
    if (host.leaving) notify_host_leaving(owner, name, *host.leaving);
  return joined;
}

std::vector<MeshProcesses> OwnerTable::settle_meshes(const ProcessRef& process,
                                                     std::set<MeshKey> held, bool again) {
  std::vector<MeshProcesses> adopted;
  std::vector<MeshFailure> failed;
  for (auto& [key, mesh] : meshes_.all()) {
    // Owners know only the actors in their shared processes.
    if (mesh.owner != process.id || mesh.is_shared_process) continue;
    if (!again) {
      adopted.push_back(
          {key, mesh.processes,
           uses_shared_processes(mesh.request) ? ActorProcess::kShared : ActorProcess::kOwn,
           mesh.request.parent_mesh});
      held.insert(key);
    }
    // Releases meshes that the owner does not list: it missed the reply of spawn(), or released
    // them.
    if (!held.contains(key) && !mesh.processes.empty() && !mesh.renewing)
      releases_.begin(key, mesh);
    if (held.contains(key) && mesh.incident) failed.push_back(mesh.failure());
  }
  notify_meshes_failed(process.id, failed);
  for (const MeshKey& key : held) notify_unknown_mesh(process, key);
  return adopted;
}

void OwnerTable::notify_unknown_mesh(const ProcessRef& owner, const MeshKey& key) {
  for (const auto& [known, mesh] : meshes_.all()) {
    if (mesh.owner != owner.id || known.name != key.name) continue;
    // Another epoch that is not ending: the mesh was renewed, and the reply was lost.
    if (known == key ? mesh.incident || !mesh.releasing : !mesh.releasing) return;
  }
  ProcessFailure lost;
  lost.mesh = key.name;
  lost.epoch = key.epoch;
  lost.host_failure = fmt::format(
      "the head (term {}) has no record of it: the previous head could not write to its disk, or "
      "this program was disconnected for more than {:.0f} s",
      store_.term(), in_seconds(grace_));
  system_.named<HeadNotifications>(owner, "watcher")
      .tell<&HeadNotifications::meshes_failed>(
          std::vector<MeshFailure>{{{key.name, key.epoch, {lost}, 0}, {}, {}}});
  log_.record(lost.describe());
}

void OwnerTable::notify_meshes_failed(ProcessId id, const std::vector<MeshFailure>& failures) {
  if (!answers(id)) return;
  const auto watcher = system_.named<HeadNotifications>(find(id)->process, "watcher");
  for (auto first = failures.begin(); first != failures.end();) {
    const auto end = first + std::min<std::ptrdiff_t>(kFailuresPerCall, failures.end() - first);
    watcher.tell<&HeadNotifications::meshes_failed>(std::vector<MeshFailure>(first, end));
    first = end;
  }
}

void OwnerTable::notify_host_leaving(const std::string& host, const std::string& why) {
  for (const auto& [id, owner] : owners_)
    if (!owner.away_since) notify_host_leaving(owner, host, why);
}

void OwnerTable::notify_host_leaving(const Owner& owner, const std::string& host,
                                     const std::string& why) {
  if (meshes_.uses_host(owner.process.id, host))
    system_.named<HeadNotifications>(owner.process, "watcher")
        .tell<&HeadNotifications::host_leaves>(host, why);
}

std::vector<ProcessId> OwnerTable::former_drivers(const OwnerRegistration& next) const {
  std::vector<ProcessId> dead;
  for (const auto& [id, owner] : owners_)
    if (next.is_keeper ? owner.offer.is_keeper : !next.run.empty() && owner.offer.run == next.run)
      dead.push_back(id);
  return dead;
}

void OwnerTable::replace(const std::vector<ProcessId>& former, ProcessId next) {
  for (const ProcessId id : former) {
    meshes_.transfer(id, next);
    reservations_.transfer(id, next);
    directory_.transfer(id, next);
    remove(id, "has ended; the next driver of its run has connected");
  }
}

void OwnerTable::driver_given_up(const std::string& run) {
  std::vector<ProcessId> dead;
  for (const auto& [id, owner] : owners_)
    if (owner.awaits_restart && owner.offer.run == run) dead.push_back(id);
  for (const ProcessId id : dead) remove(id, "has ended");
}

std::string OwnerTable::free_name(const std::string& wanted,
                                  const std::vector<ProcessId>& gone) const {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(owners_, [&](const auto& of) {
      return of.second.offer.name == name && std::ranges::find(gone, of.first) == gone.end();
    });
  };
  std::string name = wanted;
  for (int i = 2; is_taken(name); ++i) name = fmt::format("{}#{}", wanted, i);
  return name;
}

void OwnerTable::report_progress(ProcessId process, RunProgress progress) {
  const auto owner = owners_.find(process);
  if (owner == owners_.end()) return;
  owner->second.progress = std::move(progress);
  owner->second.progress_at = clock_.now();
}

void OwnerTable::run_ended(ProcessId process, const RunResult& end) {
  const Owner* const owner = find(process);
  if (owner == nullptr) return;
  runs_.end(process, end, owner->progress);
  log_.record(fmt::format("{} (driver pid {}) ends: {}{}", owner->offer.name, owner->offer.pid,
                          to_string(end.state), end.reason.empty() ? "" : ": " + end.reason));
}

void OwnerTable::close_if_reported_by_agent(ProcessId reporter, const OwnerExit& end) {
  if (hosts_.of_agent(reporter) != nullptr) close(end);
}

void OwnerTable::disconnected(ProcessId process, bool cut_off) {
  const auto found = owners_.find(process);
  if (found == owners_.end()) return;
  Owner& owner = found->second;
  const RunRecord* const run = runs_.running(process);
  const bool may_restart = run != nullptr && run->description.restartable &&
                           (meshes_.owns_any(process) || reservations_.owns_any(process));
  if (!cut_off && !may_restart) return remove(process, "has ended (its connection closed)");
  if (owner.away_since) return;
  owner.away_since = clock_.now();
  owner.awaits_restart = !cut_off;
  log_.record(fmt::format("{} (driver pid {}) {} {:.0f} s{}", owner.offer.name, owner.offer.pid,
                          owner.awaits_restart ? "ended; its devices are kept for"
                                               : "does not answer; its meshes are released in",
                          in_seconds(owner.awaits_restart ? kDriverRestartsWithin : grace_),
                          owner.awaits_restart ? " for a restart" : " unless it reconnects"));
}

void OwnerTable::expire() {
  std::vector<std::pair<ProcessId, bool>> gone;
  for (const auto& [id, owner] : owners_)
    if (owner.away_since &&
        clock_.now() - *owner.away_since > (owner.awaits_restart ? kDriverRestartsWithin : grace_))
      gone.emplace_back(id, owner.awaits_restart);
  for (const auto& [id, dead] : gone)
    remove(id, dead ? "has ended and was not restarted"
                    : fmt::format("did not reconnect within {:.0f} s", in_seconds(grace_)));
}

void OwnerTable::close(const OwnerExit& end) {
  runs_.end(end.owner, end.end, progress_of(end.owner));
  if (find(end.owner) == nullptr) return;
  remove(end.owner,
         fmt::format("ended while disconnected from the head: {}", to_string(end.end.state)));
}

void OwnerTable::remove(ProcessId process, const std::string& how) {
  const OwnerRegistration gone = owners_.at(process).offer;
  runs_.close_unreported(process, how, progress_of(process));
  directory_.remove_all_of(process);
  // Its events name the owner.
  reservations_.release_all_of(process);
  owners_.erase(process);
  store_.erase(StateStore::Table::kOwners, row_name(process));
  store_.sync_to_disk();
  releases_.release_all_of(process);
  log_.record(fmt::format("{} (driver pid {}) {}", gone.name, gone.pid, how));
}

void OwnerTable::clear(const std::string& how) {
  owners_.clear();
  close_unreported_runs(how);
}

void OwnerTable::close_unreported_runs(const std::string& how) {
  std::vector<ProcessId> lost;
  for (const auto& [number, record] : runs_.all())
    if (!record.ended() && record.state != RunState::kStarting &&
        find(record.process.id) == nullptr)
      lost.push_back(record.process.id);
  for (const ProcessId process : lost) runs_.close_unreported(process, how, std::nullopt);
}

std::vector<RunStatus> OwnerTable::statuses() const {
  std::vector<RunStatus> list;
  for (const auto& [id, owner] : owners_) {
    if (owner.offer.is_keeper) continue;
    RunStatus run{owner.offer.name, owner.offer.pid, owner.progress.has_value(), {}, 0};
    if (owner.progress) {
      run.progress = *owner.progress;
      run.progress_age_seconds = in_seconds(clock_.now() - owner.progress_at);
    }
    if (owner.away_since) run.unreachable_seconds = in_seconds(clock_.now() - *owner.away_since);
    list.push_back(std::move(run));
  }
  return list;
}

}  // namespace weft::actors
