#include "actors/cluster/child_spawner.h"

#include <memory>
#include <optional>
#include <utility>

namespace weft::actors {

task<SpawnedChild> ChildSpawner::spawn(ChildSpawn request) {
  const auto spawned = std::make_shared<SpawnedChild>();  // the handler may be cancelled
  auto spawning =
      work_.run(context_, "spawn " + request.actors.name(),
                [spawn = actions_.spawn, request, spawned, cancelled = context_.stop_token()] {
                  *spawned = spawn(request, cancelled);
                });
  std::optional<Error> problem;
  try {
    co_await spawning;
    if (spawned->is_child) co_return std::move(*spawned);
  } catch (const Error& error) {
    problem = error;
  }
  // No child asks it.
  context_.system().forget_decider(request.parent.actor, request.decider);
  if (problem) throw Error(*problem);
  co_return std::move(*spawned);
}

task<void> ChildSpawner::stop(ChildStop request) {
  auto stopping = work_.run(context_, "stop " + request.name,
                            [stop = actions_.stop, request] { stop(request); });
  co_await stopping;
}

task<void> ChildSpawner::parent_ended(ActorAddress parent) {
  auto ending =
      work_.run(context_, "end children", [end = actions_.parent_ended, parent] { end(parent); });
  co_await ending;
}

}  // namespace weft::actors
