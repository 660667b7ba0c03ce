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

template <typename T, typename... Arguments>
constexpr bool check_constructor(const std::tuple<Arguments...>*) {
  constexpr bool fits = std::is_constructible_v<T, Context&, Arguments...>;
  static_assert(fits,
                "an actor class has a public constructor (Context&, arguments...): their types are "
                "those of `using Arguments = std::tuple<...>` in the class; without it there are "
                "none");
  return fits;
}

template <typename T, typename Make, typename... Arguments>
constexpr bool check_make(const std::tuple<Arguments...>*) {
  constexpr bool fits =
      std::is_invocable_r_v<std::unique_ptr<T>, const Make&, Context&, Arguments...>;
  static_assert(fits,
                "`make` takes (Context&, arguments...) and returns a std::unique_ptr<T>: the types "
                "are those of `using Arguments = std::tuple<...>` in the class; without it there "
                "are none");
  return fits;
}

/// Checks that T can be constructed from a context and its Arguments.
template <typename T>
struct ConstructorCheck {
  static constexpr bool value =
      check_constructor<T>(static_cast<ConstructorArgumentsOf<T>*>(nullptr));
};

/// Checks that `make` makes a T from a context and T's Arguments.
template <typename T, typename Make>
struct MakeCheck {
  static constexpr bool value =
      check_make<T, Make>(static_cast<ConstructorArgumentsOf<T>*>(nullptr));
};

}  // namespace internal

/// Returns a provider whose `make` gives a std::unique_ptr<T> from context and arguments.
template <typename T, typename Make>
Provider make_provider(Make make) {
  if constexpr (internal::ActorCheck<T>::value) {
    if constexpr (internal::MakeCheck<T, Make>::value)
      return {
          interface_version<T>(), kMethodTable<T>,
          [make = std::move(make)](Context& context, std::span<const std::byte> arguments) {
            auto decoded = decode<ConstructorArgumentsOf<T>>(arguments, context.decode_context());
            return internal::erase_type<T>(std::apply(
                [&](auto&... argument) { return make(context, std::move(argument)...); }, decoded));
          }};
  }
  return {};
}

template <typename T>
Provider make_provider() {
  if constexpr (internal::ActorCheck<T>::value) {
    if constexpr (internal::ConstructorCheck<T>::value)
      return make_provider<T>([](Context& context, auto&&... arguments) {
        return std::make_unique<T>(context, std::move(arguments)...);
      });
  }
  return {};
}

}  // namespace weft::actors
