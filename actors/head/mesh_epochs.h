#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/device_allocator.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_launcher.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/state_store.h"
#include "core/base/error.h"

namespace weft::actors {

/// Begins epochs of meshes: the first one by spawn(), each later one by renew(). Chooses devices,
/// saves the mesh, then starts its processes.
///
/// Owned by the head; its thread only. The state of a mesh is in the MeshTable, as it may be
/// released, and its hosts may be lost, while it starts.
class MeshEpochs final {
 public:
  MeshEpochs(System& system, const HostTable& hosts, MeshTable& meshes, MeshReleases& releases,
             const MeshOwners& owners, DeviceAllocator& devices, StateStore& store, EventLog& log)
      : system_(system),
        hosts_(hosts),
        meshes_(meshes),
        releases_(releases),
        owners_(owners),
        devices_(devices),
        store_(store),
        log_(log),
        launcher_(system, hosts, store.term()) {}
  MeshEpochs(const MeshEpochs&) = delete;
  MeshEpochs& operator=(const MeshEpochs&) = delete;

  /// Places a mesh, starts its device processes and waits until they can be called. `owner` must be
  /// registered. Throws what DeviceAllocator::find_devices() and Agent::launch() throw, or
  /// kUnavailable if devices may become free by themselves. Leaves nothing behind then.
  task<MeshProcesses> spawn(ProcessId owner, MeshRequest request);

  // Renewal (mesh_renewal.cc).
  /// Begins the next epoch of a mesh. Living processes continue in it, each where it is. New ones
  /// replace the dead, on devices of the same hosts or of spares. Ranks without a device are
  /// missing in the result; the call can be repeated. Processes on hosts that do not answer keep
  /// their devices until they are known to have ended. Throws kNotFound if the owner has no such
  /// mesh.
  task<RenewedMesh> renew(ProcessRef owner, MeshRenewal renewal);
  /// Returns whether a process of these meshes is known not to run. Asks the agents.
  task<bool> has_dead_process(std::vector<MeshKey> keys);

 private:
  /// Throws Error(kFailedPrecondition) if `owner` may not own a mesh, Error(kInvalidArgument) for a
  /// name or a shape that no mesh can have.
  void check_request(const MeshRequest& request, ProcessId owner) const;
  std::vector<HostDevice> find_devices(const MeshRequest& request) const;
  /// Returns why a mesh whose processes have all started is unusable after all, or nothing.
  /// `registration`: registration of its owner that requested it.
  std::optional<Error> start_failure(const MeshKey& key, std::uint64_t registration) const;
  /// Releases a mesh whose start has failed, and waits until its devices are free for the next
  /// attempt. Returns the cause.
  task<Error> undo_start(MeshKey key, Error failure);

  // Steps of renew().
  /// Throws what renew() throws before it has begun.
  void check_renewal(const MeshRenewal& renewal, ProcessId owner) const;
  /// Creates and saves the next epoch before any process is told. Ranks that may live belong to it
  /// already.
  MeshKey begin_epoch(const MeshRenewal& renewal, MeshTable::Mesh& before);
  /// Moves living processes to the next epoch, each on its host.
  task<void> adopt_ranks(MeshKey from, MeshKey to);
  /// Ends processes of dead ranks on hosts that answer, so that their devices become free.
  task<void> free_dead(MeshKey from, MeshKey to);
  /// Starts a process for each rank that has none. Returns why some still have none, or nothing.
  task<std::optional<Error>> start_missing(MeshKey key);
  RenewedMesh renewed(const MeshKey& key, const std::optional<Error>& problem) const;

  System& system_;
  const HostTable& hosts_;
  MeshTable& meshes_;
  MeshReleases& releases_;
  const MeshOwners& owners_;
  DeviceAllocator& devices_;
  StateStore& store_;
  EventLog& log_;
  const MeshLauncher launcher_;
};

}  // namespace weft::actors
