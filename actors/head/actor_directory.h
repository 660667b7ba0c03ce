#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
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

  /// Records changes of an owner's names: a name's actors take the place of an earlier record. They
  /// survive the head's end when this returns. Throws Error(kFailedPrecondition) unless the caller
  /// is an owner, and Error(kInvalidArgument) for text that is no name; other names are recorded.
  void publish(ProcessId owner, PublishActors changes);
  /// Gives the names of a driver to the next one of its run.
  void transfer(ProcessId from, ProcessId to);
  /// Removes the names of an owner that has ended.
  void remove_all_of(ProcessId owner);

  /// Returns the actors of a name, after waiting for them. `caller`: process of a run, whose names
  /// come first. Throws Error(kNotFound), which tells the nearest names, and
  /// Error(kInvalidArgument) for text that is no name, and if several runs have the name and none
  /// of them is the caller's.
  task<NamedActors> find(ProcessId caller, FindActors request);
  /// Returns the present address of an actor that was published at the address `request.lost`, now
  /// or before. Waits while the actor is still recorded there. Throws Error(kNotFound) if no
  /// process has it now.
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
  using Entries = std::map<Key, Entry>;
  using ActorKey = std::pair<ProcessId, ActorId>;
  /// Rank of a name that an actor has or had.
  struct Place {
    Key name;
    std::uint32_t rank = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// Name with the run that it asks for; no run: that of the caller.
  struct ScopedName {
    std::optional<std::string> run;
    std::string name;
  };
  /// Reads "hits" or "quickstart/hits". Throws Error(kInvalidArgument).
  static ScopedName parse(const std::string& text);
  static ActorKey key_of(const ActorAddress& actor) { return {actor.process.id, actor.actor}; }
  /// Returns the process whose names count first for `caller`: itself, or the owner of its mesh.
  ProcessId owner_of(ProcessId caller) const;
  /// Returns "quickstart", the run of an owner, or "" if it has none.
  std::string run_name(ProcessId owner) const;
  bool is_run(ProcessId owner, const std::string& name_or_number) const;
  /// Returns the name that a caller means; null if there is none. `own`: result of owner_of().
  const Entries::value_type* look_up(ProcessId own, const ScopedName& wanted) const;
  [[noreturn]] void fail_not_found(ProcessId own, const std::string& name) const;
  /// Returns the present address of an actor; null if no name has it.
  const ActorAddress* find_actor(const ActorKey& actor) const;
  void record(ProcessId owner, NamedActors actors);
  /// Replaces the addresses of an entry; the earlier ones become former actors.
  void replace_addresses(const Key& key, Entry& entry, std::vector<ActorAddress> addresses);
  /// Erases the names of an owner that are not in `listed`, and are no mesh of it.
  void erase_unlisted(ProcessId owner, const std::vector<NamedActors>& listed);
  std::vector<Key> keys_of(ProcessId owner) const;
  void save(const Key& key, const Entry& entry);
  void add(const Key& key, Entry entry);
  /// Removes an entry and its row. Does nothing if there is none.
  void erase(const Key& key);
  void add_place(const ActorKey& actor, const Place& place) { places_.emplace(actor, place); }
  void erase_place(const ActorKey& actor, const Place& place);

  Context& context_;
  const MeshOwners& owners_;
  const MeshTable& meshes_;
  const RunHistory& runs_;
  StateStore& store_;
  Entries entries_;
  std::map<std::string, std::set<ProcessId>> owners_of_;  // By name.
  std::multimap<ActorKey, Place> places_;  // One for each present and former actor of `entries_`.
  // Calls that wait, by the name or actor whose change each waits for.
  std::multimap<std::string, Wakeup> finds_;
  std::multimap<ActorKey, Wakeup> locates_;
};

}  // namespace weft::actors
