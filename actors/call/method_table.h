#pragma once

#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "actors/call/interface.h"

namespace weft::actors {

/// Type-erased handler. `invoke` decodes the arguments, runs the member function and replies.
/// `combine` combines two encoded results; null if the method cannot be reduced.
struct MethodEntry {
  const char* name;
  bool urgent;
  bool concurrent;
  bool blocking;
  void (*invoke)(void* actor, CallFrame& frame);
  CombineResults combine;
};

namespace internal {

/// Calls a member function with decoded arguments: moves values in, binds references.
template <auto Member, typename T>
decltype(auto) apply_arguments(T& actor, ArgumentsOf<Member>& arguments) {
  using Parameters = typename MemberTraits<decltype(Member)>::Parameters;
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return (actor.*
            Member)(static_cast<std::tuple_element_t<I, Parameters>&&>(std::get<I>(arguments))...);
  }
  (std::make_index_sequence<std::tuple_size_v<Parameters>>());
}

/// Runs a coroutine handler and replies. Keeps the arguments alive until the end.
template <auto Member, typename T>
RootTask run_handler(T& actor, CallFrame& frame, ArgumentsOf<Member> arguments) {
  using Result = ResultOf<Member>;
  try {
    task<Result> work = apply_arguments<Member>(actor, arguments);
    if constexpr (std::is_void_v<Result>) {
      co_await std::move(work);
      frame.reply(std::vector<std::byte>());
    } else {
      Result result = co_await std::move(work);
      frame.reply(encode(result));
    }
  } catch (...) {
    frame.reply(current_error());
  }
}

/// Runs a generator, which sends its values, and replies at its end. Keeps the arguments alive
/// until then.
template <auto Member, typename T>
RootTask run_generator(T& actor, CallFrame& frame, ArgumentsOf<Member> arguments) {
  std::optional<Error> error;
  try {
    auto values = apply_arguments<Member>(actor, arguments);
    auto run = RunGenerator::run(values);
    const bool is_complete = co_await run;
    if (!is_complete)
      error = Error(ErrorCode::kCancelled,
                    "the call was cancelled, so its generator ended at a co_yield");
  } catch (...) {
    error = current_error();
  }
  if (error) frame.reply(std::move(*error));
  else frame.reply(std::vector<std::byte>());
}

template <typename T, auto Member>
void invoke_method(void* actor, CallFrame& frame) {
  using Returned = typename MemberTraits<decltype(Member)>::Returned;
  T& object = *static_cast<T*>(actor);
  auto arguments = decode<ArgumentsOf<Member>>(frame.arguments(), frame.decode_context());
  if constexpr (is_generator<Returned>) {
    frame.begin_values();
    frame.start(run_generator<Member>(object, frame, std::move(arguments)));
  } else if constexpr (is_task<Returned>) {
    frame.start(run_handler<Member>(object, frame, std::move(arguments)));
  } else if constexpr (std::is_void_v<Returned>) {
    apply_arguments<Member>(object, arguments);
    frame.reply(std::vector<std::byte>());
  } else {
    frame.reply(encode<std::remove_cvref_t<Returned>>(apply_arguments<Member>(object, arguments)));
  }
}

template <typename T, FixedString Name, std::uint32_t Version, auto... Members>
constexpr std::array<MethodEntry, sizeof...(Members)> make_method_table(
    const Interface<Name, Version, Members...>& list) {
  std::size_t i = 0;
  const auto entry = [&](void (*invoke)(void*, CallFrame&), CombineResults combine) {
    const MethodEntry made{list.names[i],    list.urgent[i], list.concurrent[i],
                           list.blocking[i], invoke,         combine};
    ++i;
    return made;
  };
  return {entry(&invoke_method<T, Members>, combine_of<T, Members>())...};
}

template <typename T>
constexpr auto make_method_table() {
  if constexpr (ActorCheck<T>::value) return make_method_table<T>(T::endpoints);
  else return std::array<MethodEntry, 0>();
}

}  // namespace internal

/// Handlers of T in the order of T::endpoints.
template <typename T>
inline constexpr auto kMethodTable = internal::make_method_table<T>();

}  // namespace weft::actors
