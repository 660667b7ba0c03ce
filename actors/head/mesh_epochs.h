#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/cluster_messages.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_launcher.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/reservations.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/shared_processes.h"
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
  /// `start_shared_later`: see SharedProcesses.
  MeshEpochs(Context& context, const HostTable& hosts, MeshTable& meshes, MeshReleases& releases,
             Reservations& reservations, const MeshOwners& owners, ResourceAllocator& resources,
             StateStore& store, EventLog& log,
             std::function<void(const MeshKey&)> start_shared_later)
      : system_(context.system()),
        hosts_(hosts),
        meshes_(meshes),
        releases_(releases),
        reservations_(reservations),
        owners_(owners),
        resources_(resources),
        store_(store),
        log_(log),
        launcher_(system_, hosts, store.term()),
        shared_(context, launcher_, meshes, releases, owners, store, log,
                std::move(start_shared_later)) {}
  MeshEpochs(const MeshEpochs&) = delete;
  MeshEpochs& operator=(const MeshEpochs&) = delete;

  /// Places a mesh, starts its device processes, or the shared processes that it needs, and waits
  /// until they can be called. `owner` must be registered. Throws what
  /// ResourceAllocator::find_places() and Agent::launch() throw, or
  /// kUnavailable if devices may become free by themselves. Leaves nothing behind then.
  task<MeshProcesses> spawn(ProcessId owner, MeshRequest request);

  /// Starts a shared process, in a handler of its own.
  task<void> start_shared(MeshKey key) { return shared_.start(std::move(key)); }
  /// Continues starts of shared processes whose call was refused. Called periodically.
  void resume_starts() { shared_.resume(); }

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
  std::vector<HostDevice> find_places(const MeshRequest& request) const;
  /// Returns why a mesh whose processes have all started is unusable after all, or nothing.
  /// `registration`: registration of its owner that requested it.
  std::optional<Error> start_failure(const MeshKey& key, std::uint64_t registration) const;
  /// Starts the processes of all ranks of a mesh, or finds shared ones. Throws the first error.
  task<std::vector<DeviceProcess>> start_all(MeshKey key);
  /// Releases a mesh whose start has failed, and waits until its devices are free for the next
  /// attempt. Returns the cause.
  task<Error> undo_start(MeshKey key, Error failure);

  // Steps of renew().
  /// Throws what renew() throws before it has begun.
  void check_renewal(const MeshRenewal& renewal, ProcessId owner) const;
  /// Creates and saves the next epoch before any process is told. Ranks that may live belong to it
  /// already.
  MeshKey begin_epoch(const MeshRenewal& renewal, MeshTable::Mesh& before);
  /// Moves the ranks in shared processes that live to the next epoch, in the MeshTable alone.
  void adopt_shared_ranks(const MeshKey& from, const MeshKey& to);
  /// Moves living processes to the next epoch, each on its host.
  task<void> adopt_ranks(MeshKey from, MeshKey to);
  /// Ends processes of dead ranks on hosts that answer, so that their devices become free.
  task<void> free_dead(MeshKey from, MeshKey to);
  /// Starts a process for each rank that has none. Returns why some still have none, or nothing.
  task<std::optional<Error>> start_missing(MeshKey key);
  /// Starts processes for these ranks of an epoch, at their places. Returns what start_missing()
  /// returns.
  task<std::optional<Error>> start_ranks(MeshKey key, std::vector<std::uint32_t> ranks);
  RenewedMesh renewed(const MeshKey& key, const std::optional<Error>& problem) const;

  System& system_;
  const HostTable& hosts_;
  MeshTable& meshes_;
  MeshReleases& releases_;
  Reservations& reservations_;
  const MeshOwners& owners_;
  ResourceAllocator& resources_;
  StateStore& store_;
  EventLog& log_;
  const MeshLauncher launcher_;
  SharedProcesses shared_;
};

}  // namespace weft::actors
