#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/call/task.h"
#include "actors/call/wakeup.h"
#include "actors/head/actor_messages.h"
#include "actors/head/cluster_rows.h"
#include "actors/head/mesh_owners.h"
#include "actors/head/mesh_table.h"
#include "actors/head/run_history.h"
#include "actors/head/state_store.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Named actors of the cluster: who owns a name, and where its actors are.
///
/// A name belongs to the owner of the actors, so two runs can use the same one. Owners publish
/// their actors once they are constructed, and again after each restart. Saves each name as a row
/// of the head's state. Owned by the head; its thread only.
class ActorDirectory final {
 public:
  ActorDirectory(Context& context, const MeshOwners& owners, const MeshTable& meshes,
                 const RunHistory& runs, StateStore& store)
      : context_(context), owners_(owners), meshes_(meshes), runs_(runs), store_(store) {}
  ActorDirectory(const ActorDirectory&) = delete;
  ActorDirectory& operator=(const ActorDirectory&) = delete;

  /// Adds the names of the saved state, after the owners. Throws Error.
  void read_rows();

  /// Records where the actors of a name are, in place of an earlier record. Ignored unless the
  /// caller is an owner.
  void publish(ProcessId owner, NamedActors actors);
  /// Removes a name. Does nothing if the caller has no such name.
  void withdraw(ProcessId owner, const std::string& name);
  /// Gives the names of a driver to the next one of its run.
  void transfer(ProcessId from, ProcessId to);
  /// Removes the names of an owner that has ended.
  void remove_all_of(ProcessId owner);

  /// Returns the actors of a name, after waiting for them. `caller`: process of a run, whose names
  /// come first. Throws Error(kNotFound), which tells the nearest names, and
  /// Error(kInvalidArgument) if several runs have the name and none is the caller's.
  task<NamedActors> find(ProcessId caller, FindActors request);
  /// Returns where an actor is now that was published at the address `request.lost`, now or before.
  /// Waits while the actor is still recorded there. Throws Error(kNotFound) if nobody has it now.
  task<ActorAddress> locate(LocateActor request);
  /// Has the owner of a name stop its actors. Returns when they have ended. Throws the errors of
  /// find(), without waiting, and of the owner.
  task<void> stop(ProcessId caller, std::string name);
  /// Returns all named actors, by run and name.
  std::vector<ActorStatus> statuses() const;

 private:
  using Key = std::pair<ProcessId, std::string>;  // owner, name
  struct Entry {
    NamedActors actors;
    /// Earlier incarnations, the latest last, by which other processes may know an actor.
    std::deque<FormerActor> former;
  };
  /// Returns the process whose names count first for `caller`: itself, or the owner of its mesh.
  ProcessId owner_of(ProcessId caller) const;
  /// Returns "quickstart", the run of an owner, or "" if it has none.
  std::string run_name(ProcessId owner) const;
  bool is_run(ProcessId owner, const std::string& name_or_number) const;
  const NamedActors* look_up(ProcessId caller, const std::string& name) const;
  [[noreturn]] void fail_not_found(ProcessId caller, const std::string& name) const;
  /// Waits for the next change of the directory, or until the time `until`.
  task<void> change(TimePoint until);
  void notify_waiters();
  void save(const Key& key, const Entry& entry);
  void erase(const Key& key);

  Context& context_;
  const MeshOwners& owners_;
  const MeshTable& meshes_;
  const RunHistory& runs_;
  StateStore& store_;
  const SteadyClock clock_;
  std::map<Key, Entry> entries_;
  std::map<std::uint64_t, Wakeup> waiters_;  // Calls of change(); each is notified once.
  std::uint64_t next_waiter_ = 0;
};

}  // namespace weft::actors
