#include "actors/cluster/context_spawn.h"

#include <algorithm>
#include <tuple>

#include "actors/cluster/described_spawn.h"
#include "core/base/clock.h"

namespace weft::actors::internal {
namespace {

std::shared_ptr<const ActorAddress> own_spawner(const Context& context, const std::string& name) {
  const System& system = context.system();
  if (!system.hosts(kSpawnerName))
    throw_error(ErrorCode::kFailedPrecondition,
                "{} cannot spawn or stop '{}': {} belongs to no cluster; spawn actors in drivers, "
                "and in actors that drivers have spawned",
                context.name(), name, system.options().name);
  return std::make_shared<const ActorAddress>(
      ActorAddress{system.self(), actor_id_of(kSpawnerName), kSpawnerName});
}

/// Returns the time that the running handler has left.
Nanoseconds time_left(const Context& context) {
  if (context.deadline() == TimePoint::max()) return kDefaultDeadline;
  return std::max<Nanoseconds>(context.deadline() - SteadyClock().now(), Nanoseconds(1));
}

}  // namespace

std::shared_ptr<CallState> request_children(const Context& context, const SpawnedActors& wanted,
                                            const SpawnOptions& options) {
  const auto spawner = own_spawner(context, wanted.name);
  ChildSpawn request;
  request.parent = context.self();
  request.parent_mesh = context.place().mesh;
  request.actors = describe_spawn(wanted, options);
  if (options.decide) {
    request.policy = ChildPolicy::kDecider;
    request.decider =
        context.add_decider([decide = options.decide](std::span<const std::byte> bytes) {
          return encode(decide(decode<Incident>(bytes)));
        });
  } else if (const auto method = context.urgent_method("on_failure");
             method && options.on_failure == OnFailure::kUnspecified && !options.restarts) {
    request.policy = ChildPolicy::kOnFailure;
    request.decision_method = method->index;
    request.decision_fingerprint = method->fingerprint;
  }
  return context.system().call(spawner, method_of<Spawner, &Spawner::spawn>(), time_left(context),
                               encode(std::tuple(std::move(request))));
}

const std::string& name_of_child(const std::string& label) {
  // "team[worker=1]": a name has no brackets.
  if (label.find('[') != std::string::npos)
    throw_error(ErrorCode::kInvalidArgument,
                "{} is one actor of a mesh, whose actors stop together: stop(mesh)", label);
  return label;
}

Future<void> request_children_end(const Context& context, const std::string& name,
                                  std::uint64_t num_actors) {
  const auto spawner = own_spawner(context, name);
  return future_of<void>(
      context.system().call(spawner, method_of<Spawner, &Spawner::stop>(), time_left(context),
                            encode(std::tuple(ChildStop{context.self(), name, 0, num_actors}))));
}

}  // namespace weft::actors::internal
