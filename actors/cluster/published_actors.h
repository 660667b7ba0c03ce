#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "actors/call/interface.h"
#include "actors/call/task.h"
#include "actors/cluster/head_link.h"
#include "actors/system/directory.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

class PublishedActors;

/// Actor that sends the changes of a PublishedActors to the head until it confirms them.
class NamePublisher final {
 public:
  NamePublisher(Context& context, PublishedActors& names) : context_(context), names_(names) {}
  /// Returns when the head has confirmed all changes.
  task<void> send();
  /// Returns when the head has confirmed all changes so far, 2 seconds at most.
  task<void> confirm();
  static constexpr auto endpoints = interface<"weft.name_publisher", 1>(
      on<&NamePublisher::send>("send", urgent), on<&NamePublisher::confirm>("confirm", urgent));

 private:
  Context& context_;
  PublishedActors& names_;
};

/// Named actors of an owner, as it tells them to the head's directory. Changes while the head is
/// away reach the next one. Owned by a Cluster; hosts an actor. Any thread.
class PublishedActors final {
 public:
  PublishedActors(System& system, const HeadLink& head);
  ~PublishedActors();
  PublishedActors(const PublishedActors&) = delete;
  PublishedActors& operator=(const PublishedActors&) = delete;

  /// Publishes the actors of a mesh under its name. `key`: the mesh's key, for withdraw(). Blocks
  /// like wait_until_confirmed().
  void publish(const MeshKey& key, const SpawnedActors& actors);
  /// Publishes actors of a name again, after a restart. Does nothing if the name was withdrawn.
  /// Does not block.
  void republish(const SpawnedActors& actors);
  /// Notes that an actor has ended itself, or is lost: the next owner must not restart it. Does
  /// nothing if its name is not published. Does not block.
  void note_end(const ActorAddress& actor);
  /// Removes the name that was published with this key. Does not block.
  void withdraw(const MeshKey& key);
  /// Removes a name that the owner's predecessor has published, and this owner has not. Does not
  /// block.
  void withdraw_inherited(const std::string& name);
  /// Sends all names to a head that has registered this process again. Does not block.
  void send_all();
  /// Blocks until the head has confirmed all changes so far, 2 seconds at most. Returns at once if
  /// the head is away, which gets them later.
  void wait_until_confirmed() const;
  /// The same for handlers.
  Future<void> confirmation() const;

  struct Published {
    MeshKey key;
    NamedActors actors;
  };
  /// Returns the actors of a name; nullopt if this owner has none.
  std::optional<Published> find(const std::string& name) const;

 private:
  friend class NamePublisher;
  /// Names that have changed. True: the actors of the name have ended; others may have it now.
  using Changes = std::map<std::string, bool>;
  std::uint64_t changes() const;
  bool is_confirmed(std::uint64_t changes) const;
  /// Notes a change of a name. Call it under mutex_, and wake_publisher() next, without the lock.
  void mark(const std::string& name, bool have_ended);
  void wake_publisher();
  /// Sends what the head has not confirmed; nullopt if that is nothing. One call at a time.
  std::optional<Future<void>> begin_call();
  /// Ends the call. `problem`: reason why it has to be repeated.
  void end_call(const std::optional<Error>& problem);

  System& system_;
  const HeadLink& head_;
  mutable Mutex mutex_;
  mutable Condition changed_;
  std::map<std::string, Published> actors_;  // guarded by mutex_; by name
  Changes unsent_;                           // guarded by mutex_
  bool all_unsent_ = false;                  // guarded by mutex_
  Changes sending_;                          // guarded by mutex_: those of the call under way
  bool all_sending_ = false;                 // guarded by mutex_: it has all names
  bool publisher_runs_ = false;              // guarded by mutex_
  bool any_so_far_ = false;                  // guarded by mutex_: a name was published
  std::uint64_t changes_ = 0;                // guarded by mutex_: number of changes so far
  std::uint64_t changes_sending_ = 0;        // guarded by mutex_: `changes_` when the call began
  std::uint64_t changes_confirmed_ = 0;      // guarded by mutex_
  std::uint64_t losses_ = 0;  // guarded by mutex_: calls that the head did not answer
  ActorRef<NamePublisher> publisher_;
};

/// Returns the name of an actor's mesh.
std::string mesh_of(const ActorAddress& actor);
/// Returns actors with the addresses at which other processes reach them.
NamedActors named_actors(const System& system, const SpawnedActors& actors);

}  // namespace weft::actors
