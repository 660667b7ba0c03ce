#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "actors/call/task.h"
#include "actors/cluster/spawner.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Spawner of a process whose actors another process owns. Passes requests on to the owner, also to
/// one that is started again meanwhile, and keeps what the next owner needs to adopt the children.
class ForwardingSpawner final : public Spawner {
 public:
  explicit ForwardingSpawner(Context& context) : context_(context) {}

  task<SpawnedChild> spawn(ChildSpawn request) override;
  task<void> stop(ChildStop request) override;
  /// Does nothing: the owner is in another process.
  task<void> end_children() override { co_return; }
  void child_ended(ChildEnd end) override;
  std::vector<ChildSpawn> children() override;

 private:
  struct Child {
    ChildSpawn request;
    bool runs = false;  ///< False while it is being spawned.
  };
  /// Calls `Method` of the owner of `parent` until it answers, or until the deadline.
  template <auto Method, typename Request>
  task<ResultOf<Method>> forward(ActorId parent, Request request);
  /// Notes that a child runs, unless it has ended meanwhile.
  void note(const ChildSpawn& request);
  /// Forgets a child, and its decider.
  void erase(ActorId parent, std::uint64_t number);
  /// Forgets the running children of that name, which have ended.
  void erase_named(const std::string& name);
  /// Lets the owner stop children of which nobody has a handle.
  void withdraw(const ChildSpawn& request);
  /// Forgets the children of actors that have ended: `now`, or at times.
  void forget_ended(bool now = false);

  Context& context_;
  std::uint64_t last_number_ = 0;
  std::map<ActorId, std::vector<Child>> children_;  // key: the parent
  std::size_t forget_above_ = 64;                   // size of children_
};

/// Hosts the spawner of a process whose actors other processes own, under kSpawnerName.
ActorRef<Spawner> host_forwarding_spawner(System& system);

}  // namespace weft::actors
