#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/spawn_options.h"
#include "actors/head/cluster_messages.h"
#include "actors/supervision/restart_budget.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Actions by which a MeshSupervisor changes a cluster. They may block.
class SupervisorActions {
 public:
  virtual ~SupervisorActions() = default;
  /// Next epoch of a mesh: its processes by rank, and the ranks that lack one, with the reason.
  struct Renewed {
    MeshKey key;
    std::vector<ProcessRef> processes;
    std::set<std::uint32_t> missing;
    Error problem = Error(ErrorCode::kUnavailable, "");
    bool has_lost_all = false;  ///< True if no former actor lives, though its process may.
  };
  /// Replaces dead processes of a mesh, and those of `broken` that it does not share. Throws the
  /// errors of Head::renew.
  virtual Renewed renew(const MeshKey& key, const MeshShape& shape, const SpawnOptions& options,
                        const std::set<std::uint32_t>& broken) = 0;
  /// Spawns actors on the ranks whose process has changed, and on those of `again`, whose actors
  /// are stopped first if their processes live. Throws the error of a constructor.
  virtual SpawnedActors respawn(const SpawnedActors& actors,
                                const std::vector<ProcessRef>& processes, const RestartInfo& info,
                                const std::set<std::uint32_t>& again) = 0;
  /// Reports to callers of one actor; see the functions of System.
  virtual void restart_begins(const ActorAddress& actor) = 0;
  virtual void restart_ends(const ActorAddress& actor, const Outcome<ActorAddress>& now) = 0;
  virtual void end_supervision(const ActorAddress& actor, const Error& why) = 0;
  virtual bool has_ended(const ActorAddress& actor) const = 0;
  /// Stops the children of actors that have died or are replaced.
  virtual void end_children(const std::vector<ActorAddress>& parents) = 0;
  /// Fails the calls of a mesh that is not restarted, with `error`.
  virtual void give_up(const Incident& incident, const Error& error) = 0;
  /// Reports a restart, or a wait for devices, to the operator.
  virtual void report(const std::string& kind, const std::string& text) = 0;
};

/// Supervisor of the meshes that an owner spawned with a restart policy: restarts their actors
/// after deaths.
///
///   [running] -> failed() -> [restarting: calls wait] -> [running]
///                                                    `-> [given up: calls fail]
///
/// An actor that ended itself (Context::exit) is not restarted, and the death of its process is
/// ignored. A restart of other ranks may give its rank a new process, which hosts nothing.
///
/// A thread per mesh, while it is restarted. Owned by a Cluster; any thread.
class MeshSupervisor final {
 public:
  explicit MeshSupervisor(SupervisorActions& actions) : actions_(actions) {}
  ~MeshSupervisor();
  MeshSupervisor(const MeshSupervisor&) = delete;
  MeshSupervisor& operator=(const MeshSupervisor&) = delete;

  /// Supervises a mesh whose actors are being constructed: deaths are noted. Call begin() or
  /// forget() next.
  void add(const MeshKey& key, const SpawnOptions& options);
  /// Begins to restart actors. `actors`: as they were spawned.
  void begin(const MeshKey& key, SpawnedActors actors);
  /// Restarts a mesh if it is supervised; otherwise returns false. Does not block.
  bool failed(const MeshFailure& failure);
  /// Returns whether the mesh of that name, in any epoch, is supervised.
  bool supervises(const MeshKey& key) const;
  /// Returns the placement of the mesh of that name; nullopt if it is not supervised.
  std::optional<MeshPlacement> placement_of(const std::string& name) const;
  /// Restarts no more actors of a mesh that was spawned under this key, if it is supervised. Deaths
  /// are ignored from now on. Waits for the end of an attempt that is under way: as long as a
  /// constructor may take, the deadline of a call, and a reply of the head.
  void end(const MeshKey& spawned);
  /// Returns the present key of a mesh; nullopt if it is not supervised.
  std::optional<MeshKey> present_key(const MeshKey& spawned) const;
  /// Forgets a mesh, after end() and its release.
  void forget(const MeshKey& spawned);
  /// Ends the supervision of all meshes, as the cluster is lost. Does not block.
  void give_up_all(const Error& why);

 private:
  struct Mesh;
  void start_thread(const std::shared_ptr<Mesh>& mesh);
  void run(Mesh& mesh);
  /// Takes the next failure, with the dead of all that are reported of its epoch; nullopt if there
  /// is none to handle. The thread is then about to end.
  std::optional<MeshFailure> next_failure(Mesh& mesh);
  void restart(Mesh& mesh, const MeshFailure& failure);
  /// Returns true if the processes that died had no actors, as these had ended themselves before.
  bool only_ended_died(const Mesh& mesh, const MeshFailure& failure) const;
  /// Returns the ranks that the policy restarts: dead ones, and living ones beside them, but none
  /// whose actor has ended itself.
  std::set<std::uint32_t> affected_ranks(const Mesh& mesh, const MeshFailure& failure,
                                         OnFailure policy) const;
  OnFailure decide(const Mesh& mesh, const Incident& incident) const;
  /// Counts a death. Throws Error(kPeerDied) if no restart is left.
  std::size_t count(Mesh& mesh, const RestartBudget::Death& death) const;
  /// Ranks that a restart has still to give something.
  struct Lacking {
    std::set<std::uint32_t> process;
    std::set<std::uint32_t> actor;
  };
  /// Tries once to give each rank a process and an actor. Returns why it has to be tried again.
  std::optional<Error> try_to_restart(Mesh& mesh, Lacking& lacking, const Incident& incident,
                                      std::size_t attempt);
  bool is_ending(const Mesh& mesh) const;
  /// Waits, at most for `time`. Returns false if the mesh ends meanwhile.
  bool pause(Mesh& mesh, Nanoseconds time);

  SupervisorActions& actions_;
  mutable Mutex mutex_;  // guards meshes_ and the marked members of Mesh
  Condition changed_;
  std::map<MeshKey, std::shared_ptr<Mesh>> meshes_;  // key: that of the spawn, the first epoch
};

}  // namespace weft::actors
