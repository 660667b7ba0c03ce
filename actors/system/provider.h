#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call/method_table.h"
#include "actors/message/message.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Type-erased actor object. Owned by its host; made, used and destroyed on the actor's thread.
using ActorObject = std::unique_ptr<void, void (*)(void*)>;

/// Class of actors that a process can host: how to construct one and how to call it. A value.
struct Provider {
  InterfaceVersion interface;
  std::span<const MethodEntry> methods;
  std::function<ActorObject(Context& context, std::span<const std::byte> arguments)> make;
};

namespace internal {

template <typename T>
ActorObject erase_type(std::unique_ptr<T> actor) {
  return ActorObject(actor.release(), [](void* object) { delete static_cast<T*>(object); });
}

}  // namespace internal

/// Returns a provider whose `make` gives a std::unique_ptr<T> from context and arguments.
template <ActorClass T, typename Make>
Provider make_provider(Make make) {
  return {interface_version<T>(), kMethodTable<T>,
          [make = std::move(make)](Context& context, std::span<const std::byte> arguments) {
            auto decoded = decode<ConstructorArgumentsOf<T>>(arguments, context.decode_context());
            return internal::erase_type<T>(std::apply(
                [&](auto&... argument) { return make(context, std::move(argument)...); }, decoded));
          }};
}

template <ActorClass T>
Provider make_provider() {
  return make_provider<T>([](Context& context, auto&&... arguments) {
    return std::make_unique<T>(context, std::move(arguments)...);
  });
}

}  // namespace weft::actors
