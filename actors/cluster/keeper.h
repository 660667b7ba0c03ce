#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "actors/cluster/blocking_work.h"
#include "actors/cluster/cluster.h"
#include "actors/head/kept_actors.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

class Keeper;

/// Actor "keeper", through which programs spawn actors whose lifetime is that of the cluster.
class KeeperActor final {
 public:
  /// `work`: runs what blocks.
  KeeperActor(Context& context, Keeper& keeper, BlockingWork& work)
      : context_(context), keeper_(keeper), work_(work) {}

  /// Spawns actors that the cluster keeps until they are stopped. Throws the errors of
  /// Cluster::spawn().
  task<NamedActors> spawn(SpawnDescription actors);

  static constexpr auto endpoints =
      interface<"weft.keeper", 1>(on<&KeeperActor::spawn>("spawn", urgent));

 private:
  Context& context_;
  Keeper& keeper_;
  BlockingWork& work_;
};

/// Owner of the actors whose lifetime is that of the cluster. Registers with the head like the
/// driver of a run, and restarts its actors in the same way. Begins with those that its predecessor
/// has left.
///
/// A part of the head's process, with a System of its own. Any thread, but all functions except
/// stop() block.
class Keeper final {
 public:
  /// `head`: address at which the head of this process listens. `options`: token and protection of
  /// its connections, and the advertised host if the head listens on every address. Throws the
  /// errors of Cluster().
  Keeper(const Address& head, SystemOptions options);
  /// Ends the actors.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Takes over or spawns again the actors of the saved state, and ends others that its predecessor
  /// has left. Returns when all are there, or stop() was called.
  void resume();
  /// Ends all waits for the head and for devices. The actors are of no use from now on.
  void stop();
  /// Spawns actors and records them. Throws the errors of Cluster::spawn(), and
  /// Error(kAlreadyExists) while resume() still has to spawn actors of that name.
  NamedActors spawn(const SpawnDescription& actors);

 private:
  /// Reads the saved state into left_. Returns false if the head does not answer.
  bool load();
  /// Tries once to spawn each of left_, many at a time: a host that is away delays its own actors
  /// alone.
  void start_left();
  void start_left(const std::string& name);
  /// Waits, at most for `time`. Returns false if stop() is called.
  bool pause(Nanoseconds time);
  NamedActors start(const SpawnDescription& actors);
  void record(const SpawnDescription& actors);
  /// Stops actors that may not be spawned yet. Throws Error(kNotFound) if there are none.
  void forget(const std::string& name);
  /// Ends the actors that the predecessor has left and not recorded. Returns false if some have to
  /// be tried again.
  bool discard_unrecorded();
  /// Ends what the predecessor has left under that name, if anything.
  void discard(const std::string& name);
  /// Lets the head forget a name, and the record of its actors.
  void withdraw(const std::string& name);
  /// Ends `actor_`.
  void end_actor();

  System system_;
  Mutex mutex_;
  Condition changed_;
  bool ready_ = false;                            // guarded by mutex_: cluster_ is made
  bool loaded_ = false;                           // guarded by mutex_: left_ is known
  bool stopping_ = false;                         // guarded by mutex_
  std::map<std::string, SpawnDescription> left_;  // guarded by mutex_: saved, and not spawned yet
  std::set<std::string> starting_;  // guarded by mutex_: names that start_left() spawns
  std::set<std::string> ending_;    // guarded by mutex_: names that forget() ends
  ActorRef<KeeperActor> actor_;
  std::optional<Cluster> cluster_;
  // Declared last: its functions use the members above.
  BlockingWork work_;
};

}  // namespace weft::actors
