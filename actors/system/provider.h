#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/method_table.h"
#include "actors/message/message.h"

namespace weft::actors {

class Context;

/// An actor object, its class forgotten. Owned by its host; made, used and destroyed on the actor's
/// thread.
using ActorObject = std::unique_ptr<void, void (*)(void*)>;

/// A class of actors that a process can host: how to make one and how to call it. A value.
struct Provider {
  InterfaceVersion interface;
  std::span<const MethodEntry> methods;
  std::function<ActorObject(Context& context, std::span<const std::byte> arguments)> make;
};

namespace internal {

template <typename T>
ActorObject make_actor(Context& context, std::span<const std::byte> arguments) {
  using Arguments = ConstructorArgumentsOf<T>;
  auto decoded = decode<Arguments>(arguments);
  T* object = std::apply([&](auto&... argument) { return new T(context, std::move(argument)...); },
                         decoded);
  return ActorObject(object, [](void* actor) { delete static_cast<T*>(actor); });
}

}  // namespace internal

template <ActorClass T>
InterfaceVersion interface_version() {
  using List = std::remove_cvref_t<decltype(T::endpoints)>;
  return {std::string(List::kName), List::kVersion, interface_fingerprint<T>()};
}

template <ActorClass T>
Provider make_provider() {
  return {interface_version<T>(), kMethodTable<T>, &internal::make_actor<T>};
}

}  // namespace weft::actors
