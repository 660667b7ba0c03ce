#include "actors/cluster/described_spawn.h"

namespace weft::actors {

SpawnDescription describe_spawn(const SpawnedActors& wanted, const SpawnOptions& options) {
  SpawnDescription actors;
  actors.interface = wanted.interface;
  actors.arguments = wanted.arguments;
  MeshRequest& mesh = actors.mesh;
  mesh.mesh = wanted.name;
  mesh.shape = wanted.shape;
  mesh.hosts = options.place.hosts;
  mesh.environment = options.place.environment;
  mesh.places = options.place.places;
  mesh.needs = options.needs;
  mesh.process = options.process;
  mesh.strategy = options.place.strategy;
  mesh.labels = options.place.labels;
  mesh.reservation = options.place.reservation;
  mesh.first_bundle = options.place.first_bundle;
  if (const auto& executable = options.place.executable) {
    mesh.binary = executable->path;
    mesh.binary_sha256 = executable->sha256;
    mesh.memory_cap = executable->memory_cap;
  }
  actors.on_failure = static_cast<std::uint8_t>(options.on_failure);
  actors.restarts = options.restarts;
  actors.within_ns = options.within.count();
  actors.if_exists = static_cast<std::uint8_t>(options.if_exists);
  actors.lifetime = static_cast<std::uint8_t>(options.lifetime);
  return actors;
}

SpawnOptions options_of(const SpawnDescription& actors) {
  const MeshRequest& mesh = actors.mesh;
  SpawnOptions options;
  options.place.hosts = mesh.hosts;
  options.place.environment = mesh.environment;
  options.place.places = mesh.places;
  options.place.strategy = mesh.strategy;
  options.place.labels = mesh.labels;
  options.place.reservation = mesh.reservation;
  options.place.first_bundle = mesh.first_bundle;
  if (!mesh.binary.empty())
    options.place.executable = {mesh.binary, mesh.binary_sha256, mesh.memory_cap};
  options.needs = mesh.needs;
  options.process = mesh.process;
  options.on_failure = static_cast<OnFailure>(actors.on_failure);
  options.restarts = actors.restarts;
  options.within = Nanoseconds(actors.within_ns);
  options.if_exists = static_cast<IfExists>(actors.if_exists);
  options.lifetime = static_cast<Lifetime>(actors.lifetime);
  return options;
}

SpawnedActors wanted_actors(const SpawnDescription& actors) {
  return {actors.interface, actors.name(), actors.mesh.shape, actors.arguments};
}

}  // namespace weft::actors
