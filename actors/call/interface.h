#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "actors/call/endpoint_options.h"
#include "actors/call/task.h"
#include "actors/message/ids.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// String literal that can be a template argument.
template <std::size_t N>
struct FixedString {
  char text[N]{};
  // NOLINTNEXTLINE: implicit on purpose
  constexpr FixedString(const char (&literal)[N]) { std::copy_n(literal, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

/// Class, result type and parameter types of a pointer to a handler.
template <typename Pointer>
struct MemberTraits;
template <typename R, typename C, typename... As>
struct MemberTraits<R (C::*)(As...)> {
  using Class = C;
  using Returned = R;
  using Parameters = std::tuple<As...>;
  using Arguments = std::tuple<std::remove_cvref_t<As>...>;
};
template <typename R, typename C, typename... As>
struct MemberTraits<R (C::*)(As...) const> : MemberTraits<R (C::*)(As...)> {};
template <typename R, typename C, typename... As>
struct MemberTraits<R (C::*)(As...) noexcept> : MemberTraits<R (C::*)(As...)> {};
template <typename R, typename C, typename... As>
struct MemberTraits<R (C::*)(As...) const noexcept> : MemberTraits<R (C::*)(As...)> {};

template <typename R>
struct AwaitedResult {
  using Type = std::remove_cvref_t<R>;
};
template <typename R>
struct AwaitedResult<task<R>> {
  using Type = R;
};
template <>
struct AwaitedResult<void> {
  using Type = void;
};

/// Result type of a call of the handler: R for both R f() and task<R> f().
template <auto Member>
using ResultOf = typename AwaitedResult<typename MemberTraits<decltype(Member)>::Returned>::Type;
/// Arguments of the handler as a tuple of values.
template <auto Member>
using ArgumentsOf = typename MemberTraits<decltype(Member)>::Arguments;
template <auto Member>
using ActorOf = typename MemberTraits<decltype(Member)>::Class;

/// Entry of an interface: a handler and its name on the wire.
template <auto Member>
struct Endpoint {
  const char* name;
  bool is_urgent;
  bool is_idempotent;
  bool is_concurrent;
  bool is_blocking;
  Nanoseconds deadline;  ///< kDefaultDeadline: the system's.
};

/// `options`: urgent, idempotent, concurrent, blocking, deadline(time), as far as they combine.
template <auto Member, typename... Options>
constexpr Endpoint<Member> on(const char* name, Options... options) {
  using All = OptionsOfMethod<Options...>;
  constexpr bool is_blocking = All::template kHas<Blocking>;
  static_assert(!is_blocking || !is_task<typename MemberTraits<decltype(Member)>::Returned>,
                "a `blocking` method must return its result, not a task: it may wait with get()");
  return {name,
          All::template kHas<Urgent>,
          All::template kHas<Idempotent>,
          All::template kHas<Concurrent>,
          is_blocking,
          All::deadline_or(kDefaultDeadline, options...)};
}

/// Wire contract of an actor class: a name, a version and a list of handlers.
///
///   static constexpr auto endpoints = actors::interface<"mesh.device", 1>(
///       actors::on<&DeviceActor::install>("install"),
///       actors::on<&DeviceActor::stop>("stop", actors::urgent));
template <FixedString Name, std::uint32_t Version, auto... Members>
struct Interface {
  static constexpr std::string_view kName = Name.view();
  static constexpr std::uint32_t kVersion = Version;
  static constexpr std::size_t kSize = sizeof...(Members);
  std::array<const char*, kSize> names;
  std::array<bool, kSize> urgent;
  std::array<bool, kSize> idempotent;
  std::array<bool, kSize> concurrent;
  std::array<bool, kSize> blocking;
  std::array<Nanoseconds, kSize> deadline;

  /// Returns the handler's position in the list, or kSize if it is absent.
  template <auto Member>
  static constexpr std::size_t index_of() {
    constexpr std::array<bool, kSize + 1> same{
        std::is_same_v<Endpoint<Member>, Endpoint<Members>>..., true};
    std::size_t index = 0;
    while (!same[index]) ++index;
    return index;
  }
};

template <FixedString Name, std::uint32_t Version, auto... Members>
constexpr Interface<Name, Version, Members...> interface(Endpoint<Members>... list) {
  Interface<Name, Version, Members...> made{{list.name...},          {list.is_urgent...},
                                            {list.is_idempotent...}, {list.is_concurrent...},
                                            {list.is_blocking...},   {list.deadline...}};
  for (std::size_t i = 0; i < sizeof...(Members); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (std::string_view(made.names[i]) == made.names[j])
        throw "an interface has two methods of the same name";
  return made;
}

/// Constructor arguments of an actor class after Context&: T::Arguments, a std::tuple, or none.
template <typename T>
struct ConstructorArguments {
  using Type = std::tuple<>;
};
template <typename T>
requires requires { typename T::Arguments; }
struct ConstructorArguments<T> {
  using Type = typename T::Arguments;
};
template <typename T>
using ConstructorArgumentsOf = typename ConstructorArguments<T>::Type;

template <typename T>
concept ActorClass = std::is_class_v<T> && requires {
  T::endpoints.names;
};

template <typename R>
struct ResultFingerprint {
  static constexpr std::uint64_t kValue = codec<R>::kFingerprint;
};
template <>
struct ResultFingerprint<void> {
  static constexpr std::uint64_t kValue = fingerprint_of("void");
};

template <FixedString Name, std::uint32_t Version, auto... Members>
constexpr std::uint64_t fingerprint_of_interface(const Interface<Name, Version, Members...>& list,
                                                 std::uint64_t constructor) {
  std::uint64_t hash =
      mix_fingerprint(mix_fingerprint(fingerprint_of(Name.view()), Version), constructor);
  std::size_t i = 0;
  ((hash = mix_fingerprint(hash, fingerprint_of(list.names[i])),
    hash = mix_fingerprint(hash, list.urgent[i++]),
    hash = mix_fingerprint(hash, codec<ArgumentsOf<Members>>::kFingerprint),
    hash = mix_fingerprint(hash, ResultFingerprint<ResultOf<Members>>::kValue)),
   ...);
  return hash;
}

/// Returns a hash of the interface's name and version, of the methods' names, urgency, arguments
/// and results, and of the constructor's arguments. Evaluated at compile time.
template <ActorClass T>
constexpr std::uint64_t interface_fingerprint() {
  return fingerprint_of_interface(T::endpoints, codec<ConstructorArgumentsOf<T>>::kFingerprint);
}

template <ActorClass T>
InterfaceVersion interface_version() {
  using List = std::remove_cvref_t<decltype(T::endpoints)>;
  return {std::string(List::kName), List::kVersion, interface_fingerprint<T>()};
}

/// Returns the handler's index on the wire.
template <typename T, auto Member>
constexpr std::uint32_t method_index() {
  using List = std::remove_cvref_t<decltype(T::endpoints)>;
  constexpr std::size_t index = List::template index_of<Member>();
  static_assert(index < List::kSize, "this method is not in the actor's `endpoints` list");
  return static_cast<std::uint32_t>(index);
}

}  // namespace weft::actors
