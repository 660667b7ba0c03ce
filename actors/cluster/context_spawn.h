#pragma once

// Templates of Context that spawn children. Included by cluster.h.

#include <memory>
#include <string>
#include <utility>

#include "actors/cluster/spawn_options.h"
#include "actors/cluster/spawner.h"
#include "actors/cluster/spawning.h"
#include "actors/system/system.h"

namespace weft::actors {

namespace internal {

/// Requests children for the actor of `context`. The reply is a SpawnedChild.
std::shared_ptr<CallState> request_children(const Context& context, const SpawnedActors& wanted,
                                            const SpawnOptions& options);
/// Returns the name of the child with that label. Throws Error(kInvalidArgument) if it is one of a
/// mesh, whose actors stop together.
const std::string& name_of_child(const std::string& label);
/// Requests the end of children. `num_actors`: see ChildStop.
Future<void> request_children_end(const Context& context, const std::string& name,
                                  std::uint64_t num_actors);

template <typename T>
MeshRef<T> take_children(CallState& call) {
  return handle_of_found<T>(system_of(call), take_result<SpawnedChild>(call).actors);
}

template <typename T, typename... Arguments>
std::shared_ptr<CallState> request_children_of(const Context& context, const std::string& name,
                                               const MeshShape& shape, const SpawnOptions& options,
                                               Arguments&&... arguments) {
  static_cast<void>(ActorCheck<T>::value);
  return request_children(context,
                          {interface_version<T>(), name, shape,
                           encode_constructor_arguments<T>(std::forward<Arguments>(arguments)...)},
                          options);
}

}  // namespace internal

template <typename T, typename... Arguments>
Spawning<ActorRef<T>> Context::spawn(const std::string& name, const SpawnOptions& options,
                                     Arguments&&... arguments) const {
  return Spawning(Future<ActorRef<T>>(
      internal::request_children_of<T>(*this, name, MeshShape(), options,
                                       std::forward<Arguments>(arguments)...),
      [](Pending& pending) {
        return internal::only_rank<T>(internal::take_children<T>(static_cast<CallState&>(pending)));
      }));
}

template <typename T, typename... Arguments>
Spawning<MeshRef<T>> Context::spawn(const std::string& name, const MeshShape& shape,
                                    const SpawnOptions& options, Arguments&&... arguments) const {
  return Spawning(
      Future<MeshRef<T>>(internal::request_children_of<T>(*this, name, shape, options,
                                                          std::forward<Arguments>(arguments)...),
                         [](Pending& pending) {
                           return internal::take_children<T>(static_cast<CallState&>(pending));
                         }));
}

inline Future<void> Context::stop(const std::string& name) const {
  return internal::request_children_end(*this, name, 0);
}

template <typename T>
Future<void> Context::stop(const ActorRef<T>& child) const {
  return stop(internal::name_of_child(child.address().label));
}

template <typename T>
Future<void> Context::stop(const MeshRef<T>& child) const {
  if (!child) internal::throw_empty_handle("MeshRef");
  return internal::request_children_end(*this, child.name(),
                                        static_cast<std::uint64_t>(child.size()));
}

}  // namespace weft::actors
