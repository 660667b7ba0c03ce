#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/head/spawn_description.h"
#include "actors/message/ids.h"
#include "actors/system/directory.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Party that decides about deaths in children.
enum class ChildPolicy : std::uint8_t {
  kOptions,   ///< `on_failure` and `restarts` of the description; without both, a death escalates.
  kDecider,   ///< The function that the parent has set with Context::add_decider().
  kOnFailure  ///< The method "on_failure" of the parent's class.
};

/// Request of an actor to spawn children.
struct ChildSpawn {
  ActorAddress parent;
  std::string parent_mesh;  ///< Name of the parent's mesh.
  /// Number of the request in the parent's process, which repeats it until it is answered; 0: it is
  /// not repeated.
  std::uint64_t number = 0;
  bool is_repeated = false;
  SpawnDescription actors;
  ChildPolicy policy = ChildPolicy::kOptions;
  std::uint64_t decider = 0;               ///< Id from Context::add_decider().
  std::uint32_t decision_method = 0;       ///< Index of "on_failure" among the parent's methods.
  std::uint64_t decision_fingerprint = 0;  ///< Fingerprint of the parent's interface.
  static constexpr auto fields = weft::fields(
      &ChildSpawn::parent, &ChildSpawn::parent_mesh, &ChildSpawn::number, &ChildSpawn::is_repeated,
      &ChildSpawn::actors, &ChildSpawn::policy, &ChildSpawn::decider, &ChildSpawn::decision_method,
      &ChildSpawn::decision_fingerprint);
};

/// Reply to ChildSpawn.
struct SpawnedChild {
  NamedActors actors;
  bool is_child = false;  ///< False for actors of another owner, or that existed before.
  static constexpr auto fields = weft::fields(&SpawnedChild::actors, &SpawnedChild::is_child);
};

/// Request of an actor to stop its children of a name.
struct ChildStop {
  ActorAddress parent;
  std::string name;
  /// Number of the request that spawned them, whose caller has no handle. Nothing is stopped, and
  /// no error is thrown, if that request spawned none. 0: whichever request.
  std::uint64_t number = 0;
  /// Number of actors in the handle that names them; another number than theirs is refused. 0: no
  /// handle.
  std::uint64_t num_actors = 0;
  static constexpr auto fields = weft::fields(&ChildStop::parent, &ChildStop::name,
                                              &ChildStop::number, &ChildStop::num_actors);
};

/// End of children before that of their parent.
struct ChildEnd {
  ActorId parent;
  std::uint64_t number = 0;   ///< That of their ChildSpawn.
  std::uint64_t decider = 0;  ///< That of their ChildSpawn.
  static constexpr auto fields =
      weft::fields(&ChildEnd::parent, &ChildEnd::number, &ChildEnd::decider);
};

/// Actor of a process through which its actors spawn children: Context::spawn() calls it. Hosted
/// under kSpawnerName by processes that have a head. That of a program with a Cluster spawns; that
/// of a device process passes requests on to the owner of the parent.
class Spawner {
 public:
  virtual ~Spawner() = default;
  /// Spawns children. Throws the errors of Cluster::spawn(), and Error(kFailedPrecondition) if they
  /// would be nested too deep. Children whose parent ends meanwhile, or whose request is cancelled,
  /// are stopped.
  virtual task<SpawnedChild> spawn(ChildSpawn request) = 0;
  /// Stops children. Returns when they have ended. Throws Error(kNotFound) unless the parent has
  /// children of that name.
  virtual task<void> stop(ChildStop request) = 0;
  /// Stops the children of actors that have ended. The Cluster of this process calls it, which
  /// knows them.
  virtual task<void> end_children() = 0;
  /// Forgets children of an actor of this process. One-way, from the owner.
  virtual void child_ended(ChildEnd end) = 0;
  /// Returns the children of this process's actors that have not ended, in order per parent, for an
  /// owner that was started again.
  virtual std::vector<ChildSpawn> children() = 0;

  static constexpr auto endpoints = interface<"weft.spawner", 1>(
      on<&Spawner::spawn>("spawn", urgent), on<&Spawner::stop>("stop", urgent),
      on<&Spawner::end_children>("end_children", urgent),
      on<&Spawner::child_ended>("child_ended", urgent), on<&Spawner::children>("children", urgent));
};

}  // namespace weft::actors
