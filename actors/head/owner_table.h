#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/actor_directory.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/reservations.h"
#include "actors/head/run_history.h"
#include "actors/head/state_store.h"
#include "core/base/clock.h"

namespace weft::actors {

class System;

/// Programs that own meshes, such as the drivers of runs: how they register, are away for a while,
/// come back, and end. Their meshes end with them.
///
/// Saves each owner as a row of the head's state, and records its run in the RunHistory. All owners
/// of an earlier head are away at first. Owned by the head; its thread only.
class OwnerTable final : public MeshOwners {
 public:
  struct Owner : OwnerRow {
    std::uint64_t registration_count = 0;
    std::optional<TimePoint> away_since = {};
    bool awaits_restart = false;  ///< True if it has died, and its next driver is awaited.
    std::optional<RunProgress> progress = {};
    TimePoint progress_at = {};  ///< Time of `progress`.
  };

  /// `grace`: time that owners that are away have to reconnect.
  OwnerTable(System& system, const Clock& clock, Nanoseconds grace, const HostTable& hosts,
             MeshTable& meshes, MeshReleases& releases, Reservations& reservations,
             ActorDirectory& directory, RunHistory& runs, StateStore& store, EventLog& log)
      : system_(system),
        clock_(clock),
        grace_(grace),
        hosts_(hosts),
        meshes_(meshes),
        releases_(releases),
        reservations_(reservations),
        directory_(directory),
        runs_(runs),
        store_(store),
        log_(log) {}
  OwnerTable(const OwnerTable&) = delete;
  OwnerTable& operator=(const OwnerTable&) = delete;

  /// Adds the owners of the saved state. Throws Error.
  void read_rows();

  /// Registers a process as an owner of meshes, which end with it. If it reconnects, it keeps the
  /// meshes that the offer lists.
  JoinReply register_owner(const ProcessRef& process, OwnerRegistration offer);
  /// Records how far an owner's run is. Kept in memory only; the last report counts.
  void report_progress(ProcessId process, RunProgress progress);
  /// Records how an owner's run ends, which the owner itself reports.
  void run_ended(ProcessId process, const RunResult& end);
  /// Removes an owner that ended while it was disconnected. May be called several times for an
  /// owner: each agent that was told reports it.
  void close(const OwnerExit& end);
  /// The same, as reported by a process. Ignored unless it is the agent of a host.
  void close_if_reported_by_agent(ProcessId reporter, const OwnerExit& end);
  /// Handles a lost connection to an owner. One that is cut off is away. The meshes of one that has
  /// ended wait for its next driver, or end.
  void disconnected(ProcessId process, bool cut_off);
  /// Removes owners that were away for too long. Called periodically.
  void expire();
  /// Removes the dead driver of a run, which will not be started again.
  void driver_given_up(const std::string& run);
  /// Forgets all owners, as the cluster stops. Closes their runs. `how`: "was stopped".
  void clear(const std::string& how);
  /// Closes runs whose driver is no owner any more and has reported no end.
  void close_unreported_runs(const std::string& how);
  /// Tells the owners that have a process on a host that it leaves.
  void notify_host_leaving(const std::string& host, const std::string& why);

  /// Returns an owner; null if the process is none.
  const Owner* find(ProcessId process) const;
  /// Returns all owners by process.
  const std::map<ProcessId, Owner>& all() const { return owners_; }
  /// Returns the keeper; nullopt if there is none that answers.
  std::optional<ProcessRef> keeper() const;
  /// Returns whether a process is an owner and is not away.
  bool answers(ProcessId process) const;
  /// Returns the owners for `weft status`.
  std::vector<RunStatus> statuses() const;

  std::optional<std::uint64_t> registration(ProcessId process) const override;
  std::string name_of(ProcessId process) const override;
  std::optional<ProcessRef> process_of(ProcessId process) const override;
  bool is_keeper(ProcessId process) const override;
  bool any_away() const override;
  void notify_meshes_failed(ProcessId owner, const std::vector<MeshFailure>& failures) override;
  void record_devices(ProcessId owner, const std::vector<RunDevice>& devices) override;

 private:
  void save(const Owner& owner);
  /// Returns `wanted`, or "run quickstart#2" if another owner has that name. `gone`: owners that do
  /// not count.
  std::string free_name(const std::string& wanted, const std::vector<ProcessId>& gone) const;
  /// Returns the owners that a new one replaces: earlier drivers of the run, whose end `weft run`
  /// has seen before it started the next one; or earlier keepers, which have ended with their head.
  std::vector<ProcessId> former_drivers(const OwnerRegistration& next) const;
  /// Removes former drivers. Meshes that were complete, and names, go to the next driver, which is
  /// saved already: a head that ends meanwhile would release the meshes of an unknown owner.
  void replace(const std::vector<ProcessId>& former, ProcessId next);
  /// Settles the meshes of an owner that has registered. `held`: meshes that it has. If `again`, it
  /// has reconnected. Returns meshes that it takes over from the former driver.
  std::vector<MeshProcesses> settle_meshes(const ProcessRef& process, std::set<MeshKey> held,
                                           bool again);
  /// Tells an owner that has reconnected that the head has no record of its mesh, if so.
  void notify_unknown_mesh(const ProcessRef& owner, const MeshKey& key);
  void notify_host_leaving(const Owner& owner, const std::string& host, const std::string& why);
  void remove(ProcessId process, const std::string& how);
  std::optional<RunProgress> progress_of(ProcessId process) const;

  System& system_;
  const Clock& clock_;
  const Nanoseconds grace_;
  const HostTable& hosts_;
  MeshTable& meshes_;
  MeshReleases& releases_;
  Reservations& reservations_;
  ActorDirectory& directory_;
  RunHistory& runs_;
  StateStore& store_;
  EventLog& log_;
  std::map<ProcessId, Owner> owners_;
};

}  // namespace weft::actors
