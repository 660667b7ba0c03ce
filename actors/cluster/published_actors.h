#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "actors/cluster/head_link.h"
#include "actors/system/directory.h"
#include "actors/system/system.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Named actors of an owner, as it tells them to the head's directory. Owned by a Cluster. Any
/// thread.
class PublishedActors final {
 public:
  PublishedActors(System& system, const HeadLink& head) : system_(system), head_(head) {}

  /// Publishes the actors of a mesh under its name. `key`: the mesh's key, for withdraw().
  void publish(const MeshKey& key, const SpawnedActors& actors);
  /// Publishes actors of a name again, after a restart. Does nothing if the name was withdrawn.
  void republish(const SpawnedActors& actors);
  /// Removes the name that was published with this key.
  void withdraw(const MeshKey& key);
  /// Sends all names to a head that has just been reached.
  void send_all(const ActorRef<Head>& head) const;

  struct Published {
    MeshKey key;
    NamedActors actors;
  };
  /// Returns the actors of a name; nullopt if this owner has none.
  std::optional<Published> find(const std::string& name) const;

 private:
  System& system_;
  const HeadLink& head_;
  mutable Mutex mutex_;
  std::map<std::string, Published> actors_;  // guarded by mutex_; by name
};

/// Returns actors with the addresses at which other processes reach them.
NamedActors named_actors(const System& system, const SpawnedActors& actors);

}  // namespace weft::actors
