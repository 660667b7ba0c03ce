#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/spawner.h"
#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Actors of an owner that other actors have spawned: a tree, from parents to their children in the
/// order of their spawns.
///
///   begin() -> [starting] -> finish() -> [running] -> forget()
///                  `-- the parent ends, or withdraw(): finish() refuses, and the owner stops the
///                      child
///
/// Owned by a Cluster. Any thread.
class ChildActors final {
 public:
  /// Number of parents above an actor, at most.
  static constexpr std::size_t kMaxDepth = 64;
  /// Ends of parents that are remembered, at most: later requests of these are refused.
  static constexpr std::size_t kMaxEnded = 4096;
  using Id = std::uint64_t;  ///< Not 0.

  /// `own`: the process of the owner. Its actors are hosted again under the same ids, and their
  /// ends are not remembered.
  explicit ChildActors(ProcessId own = ProcessId()) : own_(own) {}

  struct Begun {
    Id id = 0;
    std::optional<NamedActors> actors;  ///< Set if the request is the repetition of one.
  };
  /// Adds a child that is about to be spawned. Waits for the end of an earlier try of the same
  /// request. Throws Error(kFailedPrecondition) if it is nested too deep, and Error(kCancelled) if
  /// the parent has ended.
  Begun begin(const ChildSpawn& request);
  /// Notes that a child runs. Returns false if it has to be stopped, as its parent has ended.
  bool finish(Id child, const NamedActors& actors);
  /// Removes a child that was not spawned, or that was stopped.
  void erase(Id child);
  /// Removes the running children of that name, which have ended. Returns the processes of those
  /// parents that go on, and what to tell them.
  std::vector<std::pair<ProcessRef, ChildEnd>> forget(const std::string& name);

  /// Returns whether a child that is being spawned has lost its parent.
  bool is_abandoned(Id child) const;
  bool contains(const std::string& name) const;
  /// Returns the name of the mesh of a child's parent; with 0, that of the first child of this
  /// name. Empty if there is none.
  std::string parent_mesh_of(Id child, const std::string& name) const;
  bool is_child_of(const ActorAddress& parent, const std::string& name) const;
  /// Withdraws the request with that number. Returns true if its children run and have to be
  /// stopped. finish() refuses those that are being spawned.
  bool withdraw(const ChildStop& request);
  bool has_children(ProcessId parents) const;
  /// Returns whether running children of that name have to be stopped.
  bool has_to_stop(const std::string& name) const;

  /// Ends parents: refuses their later requests. Returns the names of their running children, in
  /// the order in which they have to be stopped.
  std::vector<std::string> end(std::span<const ActorAddress> parents);
  /// Returns the names that an earlier end() of these parents returned and that still run. Unlike
  /// end(), leaves the children of actors alone that are hosted again under the same ids.
  std::vector<std::string> ending(std::span<const ActorAddress> parents) const;
  /// Ends all actors of a process.
  std::vector<std::string> end_process(ProcessId process);
  /// Ends all parents, and refuses all later requests.
  std::vector<std::string> end_all();
  /// Blocks until none of these parents has children that have to end, or `within` has passed.
  void wait_until_gone(std::span<const ActorAddress> parents, Nanoseconds within) const;

 private:
  /// An incarnation of an actor; with kNoActor: all of the process.
  using Parent = std::pair<ProcessId, ActorId>;
  struct Child {
    std::string name;
    ProcessRef process;  ///< Process of the parent.
    Parent parent;
    std::string parent_mesh;
    std::uint64_t number = 0;
    std::uint64_t decider = 0;
    std::size_t depth = 1;  ///< Number of its parents.
    std::string root;       ///< Label of the first of them.
    bool abandoned = false;
    std::optional<NamedActors> actors = {};  ///< Absent while it is being spawned.
  };
  static Parent parent_of(const ActorAddress& actor) { return {actor.process.id, actor.actor}; }
  static bool is_one_of(const Parent& parent, std::span<const ActorAddress> actors);
  // Called under mutex_.
  void mark_ended(const Parent& parent);
  bool has_ended(const Parent& parent) const;
  const Child* find(const std::string& name) const;
  std::map<Id, Child>::iterator find_earlier(const ChildSpawn& request);
  Child make(const ChildSpawn& request) const;
  template <typename Pick>
  std::vector<std::string> abandon(Pick pick);

  const ProcessId own_;
  mutable Mutex mutex_;  // guards the members below
  mutable Condition changed_;
  std::map<Id, Child> children_;  // ids grow with each spawn
  Id last_ = 0;
  std::set<Parent> ended_;
  std::deque<Parent> ended_order_;
  bool closed_ = false;
};

}  // namespace weft::actors
