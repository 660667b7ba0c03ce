#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/head/event_log.h"
#include "actors/head/mesh_launcher.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/mesh_releases.h"
#include "actors/head/mesh_table.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"
#include "core/base/error.h"

namespace weft::actors {

/// Processes that actors of several meshes share: one for each owner, host, executable, environment
/// and memory cap. Starts each when a mesh first needs it. It ends with its owner.
///
///   mesh of actors ---- ranks' processes ----> shared process: a mesh of one in the MeshTable,
///   (no process of its own)                    which the agents know like any other
///
/// Owned by the head; its thread only.
class SharedProcesses final {
 public:
  /// `start_later`: calls start() in a handler of its own, as the call that needs the process may
  /// be cancelled.
  SharedProcesses(Context& context, const MeshLauncher& launcher, MeshTable& meshes,
                  MeshReleases& releases, const MeshOwners& owners, StateStore& store,
                  EventLog& log, std::function<void(const MeshKey&)> start_later)
      : context_(context),
        launcher_(launcher),
        meshes_(meshes),
        releases_(releases),
        owners_(owners),
        store_(store),
        log_(log),
        start_later_(std::move(start_later)) {}
  SharedProcesses(const SharedProcesses&) = delete;
  SharedProcesses& operator=(const SharedProcesses&) = delete;

  /// Gives each of these ranks of a mesh the shared process on the host of its place, and starts
  /// those that do not run. Returns why some ranks have none, or nothing. The mesh may be erased
  /// meanwhile.
  task<std::optional<Error>> provide(MeshKey mesh, std::vector<std::uint32_t> ranks);
  /// Starts a process that provide() waits for, and calls `start_later` for the next one.
  task<void> start(MeshKey key);
  /// Calls `start_later` again, as the call may have been refused. Called periodically.
  void resume();

 private:
  /// Start of a process, under way or over.
  struct Start {
    bool is_launching = false;
    bool done = false;
    std::optional<Error> error = {};
    std::vector<Wakeup> waiters = {};  // Calls of provide(); each is notified once.
  };
  /// Returns the shared process on a host for a mesh, and creates its row if there is none.
  MeshKey find_or_begin(const MeshTable::Mesh& mesh, const std::string& host);
  /// Waits until a start is over. Returns why it has failed, or nothing.
  task<std::optional<Error>> wait_for(std::shared_ptr<Start> start);
  /// Ends the former processes of the same owner and host: one that was only silent must not serve
  /// beside the next one. Throws Error(kUnavailable) if one has not ended in time.
  task<void> end_former(MeshKey key);
  /// Starts a process. Throws the reason if it is of no use.
  task<std::vector<DeviceProcess>> launch(MeshKey key);
  /// Returns why a process that has started is of no use, or nothing.
  std::optional<Error> start_failure(const MeshKey& key) const;
  void finish_start(const MeshKey& key, const std::optional<Error>& error);

  Context& context_;
  const MeshLauncher& launcher_;
  MeshTable& meshes_;
  MeshReleases& releases_;
  const MeshOwners& owners_;
  StateStore& store_;
  EventLog& log_;
  const std::function<void(const MeshKey&)> start_later_;
  // Starts under way. Shared with the calls that wait for them.
  std::map<MeshKey, std::shared_ptr<Start>> starts_;
  // Those whose launch has not begun. One call at a time begins the first: a mesh may need a
  // process on each of many hosts, and urgent calls are limited.
  std::deque<MeshKey> waiting_;
};

}  // namespace weft::actors
