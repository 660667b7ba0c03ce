#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/call/future.h"
#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/mesh_table.h"
#include "actors/head/resource_allocator.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Ends of meshes. Tells hosts to end the processes of a mesh, and frees its devices when each host
/// has confirmed that they have ended, or was removed. Then the mesh leaves the MeshTable.
///
/// Owned by the head; its thread only.
class MeshReleases final {
 public:
  /// `finish_later`: calls finish() in a handler of its own, as the call that asks for a release
  /// may be cancelled.
  MeshReleases(Context& context, const HostTable& hosts, MeshTable& meshes,
               ResourceAllocator& resources, StateStore& store, EventLog& log,
               std::function<void(const MeshKey&)> finish_later)
      : context_(context),
        hosts_(hosts),
        meshes_(meshes),
        resources_(resources),
        store_(store),
        log_(log),
        finish_later_(std::move(finish_later)) {}
  MeshReleases(const MeshReleases&) = delete;
  MeshReleases& operator=(const MeshReleases&) = delete;

  /// Ends a mesh's processes. Returns when all are reaped and its devices are free. Does nothing if
  /// there is no such mesh. Throws kFailedPrecondition if the caller does not own it.
  task<void> release(MeshKey key, ProcessRef caller);
  /// Tells the hosts of a mesh to end its processes, unless that has begun.
  void begin(const MeshKey& key, MeshTable::Mesh& mesh);
  /// Returns a wakeup that is notified when the release, which has begun, is complete.
  Wakeup released(const MeshKey& key);
  /// Completes a release that has begun, and calls `finish_later` for the next one.
  task<void> finish(MeshKey key);
  /// Begins the releases that an earlier head has not completed, and those of shared processes that
  /// have died, or have no actors on a host that leaves. Called periodically.
  void resume();
  /// Releases the meshes of an owner that has ended.
  void release_all_of(ProcessId owner);

  /// Tells an agent to end some ranks of a mesh. No ranks: all.
  Future<void> stop_ranks_on(const ProcessRef& agent, const MeshKey& key, bool failed,
                             const std::vector<std::uint32_t>& ranks = {});
  /// Fails the processes of an owner on a host that leaves, and ends them.
  void release_leaving_host(const std::string& host, ProcessId owner);
  /// Ends processes that a host runs and no mesh has. Their devices stay taken until they have
  /// ended.
  void stop_unknown_processes(const std::string& host, const MeshKey& key,
                              const MeshTable::Processes& processes);

 private:
  /// Part of a mesh that a host has been told to end.
  struct PendingStop {
    std::string host;
    ProcessRef agent;
    std::optional<Future<void>> reply;      // Set while the call is under way.
    MeshKey key;                            // Key under which the host knows it.
    std::vector<std::uint32_t> ranks = {};  // Empty: all.
  };
  struct Release {
    bool is_finishing = false;  // Used with stops.
    std::vector<PendingStop> stops;
    std::vector<Wakeup> waiters;  // Calls that wait for its end; each is notified once.
  };

  /// Adds to waiting_.
  void wait_to_finish(const MeshKey& key);
  /// Returns whether a shared process has died, or is without actors on a host that leaves.
  bool is_spent(const MeshTable::Mesh& mesh) const;
  /// Tells a host to end its part until it confirms, or is removed. `problem`: result of the first
  /// try.
  task<void> finish_stop(const MeshKey& key, bool failed, PendingStop& stop, std::string problem);
  /// Waits for the call under way. Returns why the host has not ended its part, or "".
  static task<std::string> wait_for_stop(PendingStop& stop);
  /// Removes a mesh whose processes have ended, and notifies the calls that wait for that.
  void complete(const MeshKey& key);
  /// Frees the devices of an ending mesh on all hosts but those that have not confirmed.
  void free_confirmed(const MeshKey& key, MeshTable::Mesh& mesh,
                      const std::set<std::string>& silent);

  Context& context_;
  const HostTable& hosts_;
  MeshTable& meshes_;
  ResourceAllocator& resources_;
  StateStore& store_;
  EventLog& log_;
  const std::function<void(const MeshKey&)> finish_later_;
  std::map<MeshKey, Release> releases_;  // Releases that have begun.
  // Those of meshes without a process to end. One handler completes all: an owner that ends may
  // leave thousands, and urgent calls are limited.
  std::vector<MeshKey> without_stops_;
  // Those of other meshes whose finish() has not begun. One call at a time begins the first.
  std::deque<MeshKey> waiting_;
};

}  // namespace weft::actors
