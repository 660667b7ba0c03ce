#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/event_log.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/state_store.h"
#include "actors/supervision/incident.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Meshes of a cluster: which devices each has, who owns it, and which of its processes have died.
///
/// Saves each mesh as a row of the head's state. Awaits no other process; notifies owners through
/// MeshOwners. Owned by the head; one thread at a time.
class MeshTable final {
 public:
  struct Mesh : MeshRow {
    bool failed = false;    ///< True if it has failed, or nobody waits for an orderly end.
    bool renewing = false;  ///< True while MeshEpochs::renew() runs.

    /// Returns the ranks whose device is on a host and is still the mesh's.
    std::vector<std::uint32_t> ranks_on(const std::string& host) const;
    /// Returns whether the mesh has, or starts, this process.
    bool has_process(std::uint32_t rank, const DeviceProcess& process) const;
    /// Returns the report of its incident to its owner. The mesh has one.
    MeshFailure failure() const;
    /// Returns "starting", "running", "failed", "recovering" or "ending".
    std::string state() const;
  };
  /// Device processes of a mesh on a host, by rank.
  using Processes = std::map<std::uint32_t, DeviceProcess>;

  MeshTable(const Clock& clock, StateStore& store, ResourceAllocator& resources, EventLog& log,
            MeshOwners& owners)
      : store_(store), resources_(resources), log_(log), owners_(owners), incidents_(clock) {}
  MeshTable(const MeshTable&) = delete;
  MeshTable& operator=(const MeshTable&) = delete;

  /// Adds the meshes of the saved state, after the hosts and owners. Throws Error.
  void read_rows();
  /// Puts the row of a mesh into the store, which writes it with the next event.
  void save(const MeshKey& key, const Mesh& mesh);

  Mesh& add(const MeshKey& key) { return meshes_[key]; }
  void erase(const MeshKey& key);
  /// Returns a mesh, valid until it is erased; null if there is none.
  Mesh* find(const MeshKey& key);
  const Mesh* find(const MeshKey& key) const;
  bool contains(const MeshKey& key) const { return meshes_.contains(key); }
  std::map<MeshKey, Mesh>& all() { return meshes_; }
  /// Device process and its mesh.
  struct Member {
    ProcessId owner;
    DeviceProcess device;
    bool is_dead = false;
    std::string state;  ///< See Mesh::state().
  };
  /// Returns the owner of the meshes in a process; nullopt if no mesh has it.
  std::optional<ProcessId> owner_of(ProcessId process) const;
  /// Process of a mesh, by its id and the name of the mesh.
  using MemberKey = std::pair<ProcessId, std::string>;
  /// Returns all processes of meshes.
  std::map<MemberKey, Member> members() const;

  // Shared processes (shared_meshes.cc).
  /// Returns the shared process of an owner on a host for such a request, if it starts or runs.
  std::optional<MeshKey> find_shared(ProcessId owner, const std::string& host,
                                     const MeshRequest& request) const;
  /// Returns the shared process with that id that has not failed.
  std::optional<MeshKey> find_shared(ProcessId process) const;
  /// Returns the shared processes of an owner on a host that have failed, and may not have ended.
  std::vector<MeshKey> find_failed_shared(ProcessId owner, const std::string& host) const;
  /// Returns the number of actors in a process.
  std::size_t count_ranks_in(ProcessId process) const;
  /// Throws Error(kAlreadyExists) if `owner` has a mesh of that name that is not ending.
  void check_name_is_free(ProcessId owner, const std::string& name) const;
  bool owns_any(ProcessId owner) const;
  /// Returns the names of the meshes of an owner that are not ending.
  std::set<std::string> names_of(ProcessId owner) const;
  /// Returns whether an owner has a process on a host that is not being ended.
  bool uses_host(ProcessId owner, const std::string& host) const;
  bool any_releasing() const;
  /// Gives the running meshes of an owner to another one.
  void transfer(ProcessId from, ProcessId to);

  /// Records the death of a rank and tells the owner. `host_failure`: reason if the whole host is
  /// lost; else empty. `local_log`: its log lies on this machine, and is read if the evidence has
  /// none.
  void fail(const MeshKey& key, Mesh& mesh, std::uint32_t rank, const ExitReport& evidence,
            const std::string& host_failure, bool local_log);
  /// Records that a process of a mesh has died. Ignored unless `caller` owns the mesh or is the
  /// agent of the process. `host`: host whose agent the caller is; empty if it is none.
  void process_died(const DeathReport& report, ProcessId caller, const std::string& host);
  /// Fails the ranks that meshes have on a host.
  void fail_ranks_on(const HostRegistration& host, const ExitReport& evidence,
                     const std::string& note);
  /// Records that a host was removed: meshes have no devices there any more.
  void detach_host(const std::string& host);
  /// Assigns the resources of a host that has joined again to the meshes that have them.
  void assign_resources_of(const std::string& host);
  /// Corrects the records of a host by the processes that its agent reports. Fails meshes with
  /// an ended process. Returns the processes that no mesh has.
  std::map<MeshKey, Processes> reconcile(const HostRegistration& host,
                                         const std::vector<RunningDevice>& reported);

  /// Records what the devices of a mesh are. Ignored unless the caller owns the mesh.
  void set_device_descriptions(MeshDevices devices, ProcessId caller);
  /// Adds the processes of a mesh to the record of its run.
  void record_devices(const MeshKey& key, const Mesh& mesh);
  /// Adds the users of a host's devices, and its other processes, to its status.
  void add_device_users(HostStatus& host) const;
  std::vector<MeshStatus> statuses() const;

 private:
  /// Evidence of a process's end, with what fail() says.
  struct ProcessEnd {
    ExitReport evidence;
    std::string host_failure;
    bool local_log = false;
  };
  /// Deaths of ranks of a mesh that share a process, or that of one rank.
  struct RankDeaths {
    std::size_t count = 0;
    ProcessFailure first;
  };
  /// Records the deaths of ranks in the mesh and its row. nullopt if there are none.
  std::optional<RankDeaths> mark_dead(const MeshKey& key, Mesh& mesh,
                                      const std::vector<std::uint32_t>& ranks,
                                      const ProcessEnd& end);
  /// Adds the incident of a mesh to the records. Its owner comes first.
  void record_failure(const Mesh& mesh, const RankDeaths& deaths);
  /// Records the deaths of ranks whose process has ended, and tells the owner.
  void fail_ranks(const MeshKey& key, Mesh& mesh, const std::vector<std::uint32_t>& ranks,
                  const ProcessEnd& end);
  /// Records the end of a shared process, and fails the meshes with ranks in it.
  void fail_shared(const MeshKey& key, Mesh& mesh, ProcessEnd end);
  /// Fails the ranks on a host whose shared process has ended.
  void fail_ranks_without_process(const HostRegistration& host, const MeshKey& key, Mesh& mesh);
  /// Returns "counter, pid 4121", or "shared process of run quickstart: 12 actors, pid 4121".
  std::string text_of_process(const Mesh& mesh, std::uint32_t rank) const;
  /// Fails the first rank that a host should run and does not. `running`: processes of the mesh
  /// there.
  void fail_ended_rank(const HostRegistration& host, const MeshKey& key, Mesh& mesh,
                       const Processes& running);

  StateStore& store_;
  ResourceAllocator& resources_;
  EventLog& log_;
  MeshOwners& owners_;
  IncidentLog incidents_;
  std::map<MeshKey, Mesh> meshes_;
};

/// Returns "front[data=0,tensor=1]".
std::string actor_label(const MeshRequest& request, std::uint32_t rank);

}  // namespace weft::actors
