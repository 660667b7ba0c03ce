#include "actors/cluster/child_spawner.h"

#include <memory>
#include <optional>
#include <utility>

namespace weft::actors {

task<SpawnedChild> ChildSpawner::spawn(ChildSpawn request) {
  // A spawner that forwards requests numbers and withdraws them itself.
  const bool is_own = request.number == 0;
  if (is_own) request.number = ++last_number_;
  const auto spawned = std::make_shared<SpawnedChild>();  // the handler may be cancelled
  auto spawning =
      work_.run(context_, "spawn " + request.actors.name(),
                [spawn = actions_.spawn, request, spawned, cancelled = context_.stop_token()] {
                  *spawned = spawn(request, cancelled);
                });
  std::optional<Error> problem;
  try {
    co_await spawning;
    if (context_.stop_token().stop_requested())
      problem = Error(ErrorCode::kCancelled,
                      "the call that spawned '" + request.actors.name() + "' was cancelled");
    else if (spawned->is_child) co_return std::move(*spawned);
  } catch (const Error& error) {
    problem = error;
  }
  if (is_own && context_.stop_token().stop_requested()) {
    // The spawn may go on, or have ended too late.
    auto withdrawing = stop({request.parent, request.actors.name(), request.number});
    try {
      co_await withdrawing;
    } catch (const Error&) {
      // This handler is cancelled. The stop goes on.
    }
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

task<void> ChildSpawner::end_children() {
  auto ending = work_.run(context_, "end children", actions_.end_children);
  co_await ending;
}

}  // namespace weft::actors
