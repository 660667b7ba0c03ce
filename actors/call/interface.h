#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "actors/call/combine.h"
#include "actors/call/endpoint_options.h"
#include "actors/call/generator.h"
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

/// Class, result type and parameter types of a pointer to a handler. Other pointers have kIsMethod
/// false; checks report them.
template <typename Pointer>
struct MemberTraits {
  static constexpr bool kIsMethod = false;
  using Class = void;
  using Returned = void;
  using Parameters = std::tuple<>;
  using Arguments = std::tuple<>;
};
template <typename R, typename C>
requires std::is_object_v<R>
struct MemberTraits<R C::*> : MemberTraits<void> {
  using Returned = R;
};
template <typename R, typename C, typename... As>
struct MemberTraits<R (C::*)(As...)> {
  static constexpr bool kIsMethod = true;
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
template <typename R>
struct AwaitedResult<generator<R>> {
  using Type = R;
};
template <>
struct AwaitedResult<void> {
  using Type = void;
};

/// Result type of a call of the handler: R for R f() and task<R> f(); the type of the values for
/// generator<R> f().
template <auto Member>
using ResultOf = typename AwaitedResult<typename MemberTraits<decltype(Member)>::Returned>::Type;
/// Arguments of the handler as a tuple of values.
template <auto Member>
using ArgumentsOf = typename MemberTraits<decltype(Member)>::Arguments;
template <auto Member>
using ActorOf = typename MemberTraits<decltype(Member)>::Class;
template <auto Member>
inline constexpr bool kIsGenerator =
    is_generator<typename MemberTraits<decltype(Member)>::Returned>;
template <auto Member>
inline constexpr bool kIsMethod = MemberTraits<decltype(Member)>::kIsMethod;

/// Entry of an interface: a handler and its name on the wire.
template <auto Member>
struct Endpoint {
  const char* name;
  bool is_urgent;
  bool is_idempotent;
  bool is_concurrent;
  bool is_blocking;
  Nanoseconds deadline;  ///< kDefaultDeadline: the system's.
  bool has_combine;
  CombineResults combine;  ///< Function of reduce_with, if there is one.
};

/// `options`: urgent, idempotent, concurrent, blocking, deadline(time), reduce_with<...>, as far as
/// they combine.
template <auto Member, typename... Options>
constexpr Endpoint<Member> on(const char* name, Options... options) {
  static_assert(kIsMethod<Member>,
                "an endpoint is a method of the actor class: write on<&T::method>(\"method\"), "
                "without static, volatile, & and && at the method");
  using All = OptionsOfMethod<Options...>;
  static_assert((... && (All::template kIsOption<Options> || internal::is_reduce_with<Options>)),
                "an option of a method is `urgent`, `idempotent`, `concurrent`, `blocking`, "
                "`deadline(time)` or `reduce_with<...>`");
  static_assert(!(All::kUrgent && All::kBlocking),
                "a method cannot be `urgent` and `blocking`: urgent calls run on the actor's "
                "thread, which must not block");
  static_assert(!(All::kUrgent && All::kConcurrent),
                "a method cannot be `urgent` and `concurrent`: urgent calls interleave with all "
                "others");
  static_assert(!(All::kConcurrent && All::kBlocking),
                "a method cannot be `concurrent` and `blocking`: a blocking handler runs alone");
  static_assert(!All::kBlocking || !is_task<typename MemberTraits<decltype(Member)>::Returned>,
                "a `blocking` method must return its result, not a task: it may wait with get()");
  static_assert(!All::kBlocking || !kIsGenerator<Member>,
                "a generator cannot be `blocking`: it runs on the actor's thread; call a blocking "
                "method of another actor with co_await");
  static_assert(!kIsGenerator<Member> || !(... || internal::is_reduce_with<Options>),
                "a generator gives several values, so reduce() cannot combine them: remove "
                "`reduce_with`");
  CombineResults combine = nullptr;
  if constexpr (kIsMethod<Member>)
    ((combine = internal::is_reduce_with<Options>
                    ? internal::ListedCombine<ResultOf<Member>, Options>::kFunction
                    : combine),
     ...);
  return {name,
          All::kUrgent,
          All::template kHas<Idempotent>,
          All::kConcurrent,
          All::kBlocking,
          All::deadline_or(kDefaultDeadline, options...),
          (... || internal::is_reduce_with<Options>),
          combine};
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
  // GCC compares no pointer with null at compile time if it instruments undefined behaviour.
  std::array<bool, kSize> has_combine;
  std::array<CombineResults, kSize> combine;

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
  return {{list.name...},          {list.is_urgent...},   {list.is_idempotent...},
          {list.is_concurrent...}, {list.is_blocking...}, {list.deadline...},
          {list.has_combine...},   {list.combine...}};
}

/// Result of interface() with entries that are no endpoints; a static assertion reports them.
struct RejectedInterface {};
template <typename Entry>
inline constexpr bool kIsEndpoint = false;
template <auto Member>
inline constexpr bool kIsEndpoint<Endpoint<Member>> = true;
template <FixedString Name, std::uint32_t Version, typename... Entries>
requires(!(true && ... && kIsEndpoint<Entries>)) constexpr RejectedInterface interface(Entries...) {
  static_assert((true && ... && kIsEndpoint<Entries>),
                "an entry of an interface is no endpoint: write actors::interface<\"name\", "
                "1>(actors::on<&T::method>(\"method\"), ...)");
  return {};
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

namespace internal {

template <typename T>
struct ActorCheck;
template <typename T, auto Member>
struct CallCheck;

}  // namespace internal

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
    hash = mix_fingerprint(hash, ResultFingerprint<ResultOf<Members>>::kValue),
    hash = kIsGenerator<Members> ? mix_fingerprint(hash, fingerprint_of("generator")) : hash),
   ...);
  return hash;
}

/// Returns a hash of the interface's name and version, of the methods' names, urgency, arguments
/// and results, and of the constructor's arguments. Evaluated at compile time.
template <typename T>
constexpr std::uint64_t interface_fingerprint() {
  if constexpr (internal::ActorCheck<T>::value)
    return fingerprint_of_interface(T::endpoints, codec<ConstructorArgumentsOf<T>>::kFingerprint);
  else return 0;
}

template <typename T>
InterfaceVersion interface_version() {
  if constexpr (internal::ActorCheck<T>::value) {
    using List = std::remove_cvref_t<decltype(T::endpoints)>;
    return {std::string(List::kName), List::kVersion, interface_fingerprint<T>()};
  } else {
    return {};
  }
}

/// Returns the handler's index on the wire.
template <typename T, auto Member>
constexpr std::uint32_t method_index() {
  if constexpr (internal::CallCheck<T, Member>::value)
    return static_cast<std::uint32_t>(T::endpoints.template index_of<Member>());
  else return 0;
}

/// Returns the function that combines the handler's results: the listed one, which does the other
/// operations too, or the one for numbers; null if neither fits.
template <typename T, auto Member>
constexpr CombineResults combine_of() {
  CombineResults combine = nullptr;
  if constexpr (!kIsGenerator<Member>) {
    constexpr std::uint32_t index = method_index<T, Member>();
    if constexpr (T::endpoints.has_combine[index]) combine = T::endpoints.combine[index];
    else if constexpr (internal::Elements<ResultOf<Member>>::kReducible)
      combine = &internal::combine_results<ResultOf<Member>>;
  }
  return combine;
}

}  // namespace weft::actors

#include "actors/call/class_check.h"
