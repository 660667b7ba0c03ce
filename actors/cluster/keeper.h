#pragma once

#include <mutex>
#include <optional>

#include "actors/cluster/blocking_work.h"
#include "actors/cluster/cluster.h"
#include "actors/head/kept_actors.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

class Keeper;

/// Actor "keeper", through which programs spawn actors whose lifetime is that of the cluster.
class KeeperActor final {
 public:
  KeeperActor(Context& context, Keeper& keeper) : context_(context), keeper_(keeper) {}

  /// Spawns actors that the cluster keeps until they are stopped. Throws the errors of
  /// Cluster::spawn().
  task<NamedActors> spawn(KeptActors actors);

  static constexpr auto endpoints =
      interface<"weft.keeper", 1>(on<&KeeperActor::spawn>("spawn", urgent));

 private:
  Context& context_;
  Keeper& keeper_;
  BlockingWork work_;
};

/// Owner of the actors whose lifetime is that of the cluster. Registers with the head like the
/// driver of a run, and restarts its actors in the same way. Begins with those that its predecessor
/// has left.
///
/// A part of the head's process, with a System of its own. Any thread, but all functions block.
class Keeper final {
 public:
  /// `head`: address at which the head of this process listens. `options`: token and protection of
  /// its connections. Throws the errors of Cluster().
  Keeper(const Address& head, SystemOptions options);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Takes over or spawns again the actors of the saved state, until all are there or stop() is
  /// called.
  void resume();
  void stop();
  /// Spawns actors and records them. Throws the errors of Cluster::spawn().
  NamedActors spawn(const KeptActors& actors);

 private:
  NamedActors start(const KeptActors& actors);

  System system_;
  Mutex mutex_;
  Condition changed_;
  bool ready_ = false;     // guarded by mutex_: cluster_ is made
  bool stopping_ = false;  // guarded by mutex_
  ActorRef<KeeperActor> actor_;
  std::optional<Cluster> cluster_;
};

}  // namespace weft::actors
