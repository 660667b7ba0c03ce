#include "actors/cluster/published_actors.h"

#include <utility>

namespace weft::actors {

NamedActors named_actors(const System& system, const SpawnedActors& actors) {
  NamedActors named{actors.name, actors.interface, actors.shape, {}};
  for (const auto& address : actors.addresses)
    named.addresses.push_back(system.last_known_address(*address));
  return named;
}

void PublishedActors::publish(const MeshKey& key, const SpawnedActors& actors) {
  NamedActors now = named_actors(system_, actors);
  const std::lock_guard lock(mutex_);
  head_.tell<&Head::publish_actors>(now);
  actors_[actors.name] = {key, std::move(now)};
}

void PublishedActors::republish(const SpawnedActors& actors) {
  NamedActors now = named_actors(system_, actors);
  const std::lock_guard lock(mutex_);
  const auto found = actors_.find(actors.name);
  if (found == actors_.end()) return;
  head_.tell<&Head::publish_actors>(now);
  found->second.actors = std::move(now);
}

void PublishedActors::withdraw(const MeshKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = actors_.find(key.name);
  if (found == actors_.end() || found->second.key != key) return;
  actors_.erase(found);
  head_.tell<&Head::withdraw_actors>(key.name);
}

void PublishedActors::send_all(const ActorRef<Head>& head) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, published] : actors_) head.tell<&Head::publish_actors>(published.actors);
}

std::optional<PublishedActors::Published> PublishedActors::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = actors_.find(name);
  return found == actors_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace weft::actors
