// Programs that own meshes: how they register, are away for a while, come back, and end.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/head/head.h"
#include "actors/head/head_notifications.h"
#include "actors/system/system.h"

namespace weft::actors {
namespace {

/// Time for the next driver to register. `weft run` starts it when it has reaped the one before.
constexpr Nanoseconds kDriverRestartsWithin = std::chrono::seconds(20);

std::string row_name(ProcessId process) { return std::to_string(process.value()); }

}  // namespace

void Head::save(const Owner& owner) {
  store_.put(StateStore::Table::kOwners, row_name(owner.process.id),
             encode(static_cast<const OwnerRow&>(owner)));
}

JoinReply Head::register_owner(OwnerRegistration offer) {
  const ProcessRef caller = context_.caller();
  const auto known = owners_.find(caller.id);
  const bool again = known != owners_.end();
  JoinReply joined{store_.cluster_id(), store_.term(), config_.grace.count()};
  // The program is ending, and an agent has told this head how.
  if (!again && runs_.has_reported_end(caller.id)) return joined;
  if (!again && offer.replaces_driver) replace_former_drivers(offer.run, caller.id);
  offer.name = again ? known->second.offer.name : free_name(offer.name);
  Owner& owner = owners_[caller.id];
  std::set<MeshKey> has(offer.held_meshes.begin(), offer.held_meshes.end());
  for (const MeshKey& key : has) store_.raise_mesh_epoch(key.name, key.epoch);
  offer.held_meshes.clear();
  owner.offer = offer;
  owner.process = caller;
  owner.awaits_restart = false;
  ++owner.registration_count;
  const std::optional<TimePoint> away_since = std::exchange(owner.away_since, std::nullopt);
  save(owner);
  runs_.begin(caller, offer.name, offer.pid);
  if (!again) event(fmt::format("{} (driver pid {}) started", offer.name, offer.pid));
  else if (away_since)
    event(fmt::format("{} (driver pid {}) reconnected after {:.1f} s", offer.name, offer.pid,
                      in_seconds(clock_.now() - *away_since)));
  for (auto& [key, mesh] : meshes_) {
    if (mesh.owner != caller.id) continue;
    if (!again) {
      joined.adopted_meshes.push_back({key, mesh.processes});
      has.insert(key);
    }
    // Releases meshes that the owner does not list: it missed the reply of spawn(), or released
    // them.
    if (!has.contains(key) && !mesh.processes.empty() && !mesh.renewing) begin_release(key, mesh);
    if (has.contains(key) && mesh.incident) notify_mesh_failed(mesh);
  }
  for (const MeshKey& key : has) notify_unknown_mesh(caller, key);
  // Hosts may have begun to leave while this owner was away.
  for (const auto& [name, host] : hosts_)
    if (host.leaving) notify_host_leaving(owner, host);
  return joined;
}

void Head::notify_unknown_mesh(const ProcessRef& owner, const MeshKey& key) {
  for (const auto& [known, mesh] : meshes_) {
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
      store_.term(), in_seconds(config_.grace));
  context_.system()
      .named<HeadNotifications>(owner, "watcher")
      .tell<&HeadNotifications::mesh_failed>(MeshFailure{{key.name, key.epoch, {lost}, 0}, {}, {}});
  event(lost.describe());
}

/// Removes earlier drivers of the run: `weft run` has seen their end before it started the next
/// one. Meshes that were complete go to the next driver.
void Head::replace_former_drivers(const std::string& run, ProcessId next) {
  std::vector<ProcessId> dead;
  for (const auto& [id, owner] : owners_)
    if (!run.empty() && owner.offer.run == run) dead.push_back(id);
  for (const ProcessId id : dead) {
    for (auto& [key, mesh] : meshes_) {
      if (mesh.owner != id || mesh.releasing || mesh.renewing || mesh.processes.empty()) continue;
      mesh.owner = next;
      save(key, mesh);
    }
    remove_owner(id, "has ended; the next driver of its run has connected");
  }
}

void Head::driver_given_up(const std::string& run) {
  std::vector<ProcessId> dead;
  for (const auto& [id, owner] : owners_)
    if (owner.awaits_restart && owner.offer.run == run) dead.push_back(id);
  for (const ProcessId id : dead) remove_owner(id, "has ended");
}

std::string Head::free_name(const std::string& wanted) const {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(owners_,
                               [&](const auto& of) { return of.second.offer.name == name; });
  };
  std::string name = wanted;
  for (int i = 2; is_taken(name); ++i) name = fmt::format("{}#{}", wanted, i);
  return name;
}

void Head::owner_lost(ProcessId peer, bool cut_off) {
  const auto found = owners_.find(peer);
  if (found == owners_.end()) return;
  Owner& owner = found->second;
  const RunRecord* const run = runs_.running(peer);
  const bool has_mesh =
      std::ranges::any_of(meshes_, [&](const auto& of) { return of.second.owner == peer; });
  if (!cut_off && !(run != nullptr && run->description.restartable && has_mesh))
    return remove_owner(peer, "has ended (its connection closed)");
  if (owner.away_since) return;
  owner.away_since = clock_.now();
  owner.awaits_restart = !cut_off;
  event(fmt::format("{} (driver pid {}) {} {:.0f} s{}", owner.offer.name, owner.offer.pid,
                    owner.awaits_restart ? "ended; its devices are kept for"
                                         : "does not answer; its meshes are released in",
                    in_seconds(owner.awaits_restart ? kDriverRestartsWithin : config_.grace),
                    owner.awaits_restart ? " for a restart" : " unless it reconnects"));
}

void Head::expire_owners() {
  std::vector<std::pair<ProcessId, bool>> gone;
  for (const auto& [id, owner] : owners_)
    if (owner.away_since && clock_.now() - *owner.away_since >
                                (owner.awaits_restart ? kDriverRestartsWithin : config_.grace))
      gone.emplace_back(id, owner.awaits_restart);
  for (const auto& [id, dead] : gone)
    remove_owner(
        id, dead ? "has ended and was not restarted"
                 : fmt::format("did not reconnect within {:.0f} s", in_seconds(config_.grace)));
}

void Head::remove_owner(ProcessId peer, const std::string& how) {
  const OwnerRegistration gone = owners_.at(peer).offer;
  runs_.close_unreported(peer, how, progress_of(peer));
  owners_.erase(peer);
  store_.erase(StateStore::Table::kOwners, row_name(peer));
  store_.sync_to_disk();
  for (auto& [key, mesh] : meshes_) {
    if (mesh.owner != peer || mesh.releasing) continue;
    mesh.failed = true;  // No owner is left to wait for an orderly end.
    begin_release(key, mesh);
  }
  event(fmt::format("{} (driver pid {}) {}", gone.name, gone.pid, how));
}

void Head::report_owner_exit(const OwnerExit& end) {
  if (host_of(context_.caller().id) == nullptr) return;
  close_owner(end);
}

/// May be called several times for an owner: each agent that was told reports it.
void Head::close_owner(const OwnerExit& end) {
  const auto owner = owners_.find(end.owner);
  runs_.end(end.owner, end.end, progress_of(end.owner));
  if (owner == owners_.end()) return;
  remove_owner(end.owner,
               fmt::format("ended while disconnected from the head: {}", to_string(end.end.state)));
}

}  // namespace weft::actors
