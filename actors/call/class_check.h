#pragma once

// Checks of actor classes and of calls. One static assertion reports a mistake, in a function whose
// template arguments name the class, the method or the types. The check's `value` is then
// false, and code that would fail, too, is left out. Assertions are in functions, as Clang rejects
// uses of a class in which one has failed. Included by interface.h.

#include "actors/call/interface.h"
#include "core/codec/codec_check.h"

namespace weft::actors {

// Types of the method "on_failure", which classes list without knowing Spawner.
enum class OnFailure : std::uint8_t;
struct Incident;

}  // namespace weft::actors

namespace weft::actors::internal {

template <typename List>
inline constexpr bool kIsInterface = false;
template <FixedString Name, std::uint32_t Version, auto... Members>
inline constexpr bool kIsInterface<Interface<Name, Version, Members...>> = true;

template <typename List>
constexpr bool names_differ(List list) {
  for (std::size_t i = 0; i < List::kSize; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (std::string_view(list.names[i]) == list.names[j]) return false;
  return true;
}

template <typename Tuple>
inline constexpr bool kIsTuple = false;
template <typename... Ts>
inline constexpr bool kIsTuple<std::tuple<Ts...>> = true;

template <typename R>
struct ResultCheck : CodecCheck<R> {};
template <>
struct ResultCheck<void> : std::true_type {};

/// Checks the types of a method's parameters and result. False for what is no method.
template <auto Member>
struct MethodCheck : std::false_type {};
template <auto Member>
requires kIsMethod<Member>
struct MethodCheck<Member> {
  static constexpr bool value =
      CodecCheck<ArgumentsOf<Member>>::value && ResultCheck<ResultOf<Member>>::value;
};

/// Checks the types of all methods of an interface.
template <typename List>
struct MethodsCheck : std::true_type {};
template <FixedString Name, std::uint32_t Version, auto... Members>
struct MethodsCheck<Interface<Name, Version, Members...>> {
  static constexpr bool value = (true && ... && MethodCheck<Members>::value);
};

template <typename T, typename List>
inline constexpr bool kHasMethods = true;
template <typename T, FixedString Name, std::uint32_t Version, auto... Members>
inline constexpr bool kHasMethods<T, Interface<Name, Version, Members...>> =
    (true && ... && (!kIsMethod<Members> || std::is_base_of_v<ActorOf<Members>, T>));

/// Checks that a method listed as "on_failure" is one that Context::spawn() can ask.
template <FixedString Name, std::uint32_t Version, auto... Members>
constexpr bool can_decide(const Interface<Name, Version, Members...>& list) {
  std::size_t i = 0;
  const auto fits = [&](bool has_types) {
    const bool is_urgent = list.urgent[i];
    return std::string_view(list.names[i++]) != "on_failure" || (is_urgent && has_types);
  };
  return (true && ... &&
          fits(std::is_same_v<ResultOf<Members>, OnFailure> && !kIsGenerator<Members> &&
               std::is_same_v<ArgumentsOf<Members>, std::tuple<Incident>>));
}

template <typename T>
struct EndpointsOf {
  using Type = void;
};
template <typename T>
requires requires { T::endpoints; }
struct EndpointsOf<T> {
  using Type = std::remove_cvref_t<decltype(T::endpoints)>;
};

enum class ClassProblem {
  kNone,
  kReported,
  kIncomplete,
  kNoEndpoints,
  kNoInterface,
  kNotConstant,
  kSameName,
  kOtherClass,
  kCannotDecide,
  kNoTuple
};

template <typename T>
constexpr ClassProblem problem_of_class() {
  using List = typename EndpointsOf<T>::Type;
  if constexpr (std::is_class_v<T> && !requires { sizeof(T); }) {
    return ClassProblem::kIncomplete;
  } else if constexpr (std::is_void_v<List>) {
    return ClassProblem::kNoEndpoints;
  } else if constexpr (std::is_same_v<List, RejectedInterface>) {
    return ClassProblem::kReported;
  } else if constexpr (!kIsInterface<List>) {
    return ClassProblem::kNoInterface;
  } else if constexpr (!requires { typename std::bool_constant<names_differ(T::endpoints)>; }) {
    return ClassProblem::kNotConstant;
  } else if constexpr (!names_differ(T::endpoints)) {
    return ClassProblem::kSameName;
  } else if constexpr (!kHasMethods<T, List>) {
    return ClassProblem::kOtherClass;
  } else if constexpr (!can_decide(T::endpoints)) {
    return ClassProblem::kCannotDecide;
  } else {
    return kIsTuple<ConstructorArgumentsOf<T>> ? ClassProblem::kNone : ClassProblem::kNoTuple;
  }
}

template <typename T, ClassProblem problem>
constexpr bool report_class() {
  static_assert(problem != ClassProblem::kIncomplete,
                "the actor class is only declared here: include its definition");
  static_assert(problem != ClassProblem::kNoEndpoints,
                "an actor class lists its methods: add a public `static constexpr auto endpoints = "
                "actors::interface<\"name\", 1>(actors::on<&T::method>(\"method\"), ...);` to it");
  static_assert(problem != ClassProblem::kNoInterface,
                "the `endpoints` of an actor class is no interface: write `static constexpr auto "
                "endpoints = actors::interface<\"name\", 1>(actors::on<&T::method>(\"method\"), "
                "...);`");
  static_assert(problem != ClassProblem::kNotConstant,
                "the `endpoints` of an actor class must be `static constexpr`");
  static_assert(problem != ClassProblem::kSameName,
                "two methods in `endpoints` have the same name: give each on<...>(\"name\") its "
                "own");
  static_assert(problem != ClassProblem::kOtherClass,
                "a method in `endpoints` belongs to another class: list methods of the actor class "
                "and its bases");
  static_assert(problem != ClassProblem::kCannotDecide,
                "the method \"on_failure\" decides about deaths of children: write `OnFailure "
                "on_failure(Incident incident)` and on<&T::on_failure>(\"on_failure\", urgent), or "
                "give it another name");
  static_assert(problem != ClassProblem::kNoTuple,
                "the `Arguments` of an actor class must be a std::tuple: the types of the "
                "constructor's parameters after Context&");
  return problem == ClassProblem::kNone;
}

/// Checks an actor class: its `endpoints`, `Arguments`, and the types of all methods.
template <typename T>
struct ActorCheck {
  static constexpr bool value = report_class<T, problem_of_class<T>()>() &&
                                MethodsCheck<typename EndpointsOf<T>::Type>::value &&
                                CodecCheck<ConstructorArgumentsOf<T>>::value;
};

enum class CallProblem { kNone, kReported, kNoMethod, kOtherClass, kNotListed };

template <typename T, auto Member>
constexpr CallProblem problem_of_call() {
  if constexpr (!ActorCheck<T>::value) {
    return CallProblem::kReported;
  } else if constexpr (!kIsMethod<Member>) {
    return CallProblem::kNoMethod;
  } else if constexpr (!std::is_base_of_v<ActorOf<Member>, T>) {
    return CallProblem::kOtherClass;
  } else {
    constexpr bool listed = T::endpoints.template index_of<Member>() < T::endpoints.kSize;
    return listed ? CallProblem::kNone : CallProblem::kNotListed;
  }
}

template <typename T, auto Member, CallProblem problem>
constexpr bool report_call() {
  static_assert(problem != CallProblem::kNoMethod,
                "only a method can be called: write call<&T::method>(...), or tell, scatter, ...");
  static_assert(problem != CallProblem::kOtherClass,
                "this method belongs to another class than the actor that is called");
  static_assert(problem != CallProblem::kNotListed,
                "this method is not in the `endpoints` of the actor class: add "
                "actors::on<&T::method>(\"method\") there");
  return problem == CallProblem::kNone;
}

/// Checks that an actor of class T has the endpoint Member.
template <typename T, auto Member>
struct CallCheck {
  static constexpr bool value = report_call<T, Member, problem_of_call<T, Member>()>();
};

/// Refuses generators where a call has one result.
template <auto Member>
constexpr bool check_one_result() {
  static_assert(!kIsGenerator<Member>,
                "the method is a generator, which gives several values: read them with "
                "stream<&T::method>(...) of an actor or a mesh");
  return !kIsGenerator<Member>;
}

/// Checks the type of the argument at a position, counted from 1.
template <std::size_t position, typename Parameter, typename Argument>
constexpr bool check_argument() {
  static_assert(std::is_constructible_v<Parameter, Argument>,
                "an argument does not convert to the type of the parameter: see "
                "check_argument<position, Parameter, Argument>");
  return std::is_constructible_v<Parameter, Argument>;
}

enum class ArgumentsProblem { kNone, kReported, kNumber };

template <typename Tuple, typename... Arguments>
constexpr ArgumentsProblem problem_of_arguments() {
  if constexpr (std::is_constructible_v<Tuple, Arguments...>) {
    return ArgumentsProblem::kNone;
  } else if constexpr (sizeof...(Arguments) != std::tuple_size_v<Tuple>) {
    return ArgumentsProblem::kNumber;
  } else {
    const bool converts = []<std::size_t... I>(std::index_sequence<I...>) {
      return (true && ... && check_argument<I + 1, std::tuple_element_t<I, Tuple>, Arguments>());
    }
    (std::index_sequence_for<Arguments...>());
    return converts ? ArgumentsProblem::kNone : ArgumentsProblem::kReported;
  }
}

template <auto Member, ArgumentsProblem problem>
constexpr bool report_arguments() {
  static_assert(problem != ArgumentsProblem::kNumber,
                "wrong number of arguments: a call takes one for each parameter of the method");
  return problem == ArgumentsProblem::kNone;
}

/// Checks the arguments of a call.
template <auto Member, typename... Arguments>
struct CallArgumentsCheck {
  static constexpr bool value =
      report_arguments<Member, problem_of_arguments<ArgumentsOf<Member>, Arguments...>()>();
};

template <typename T, ArgumentsProblem problem>
constexpr bool report_spawn() {
  static_assert(problem != ArgumentsProblem::kNumber,
                "wrong number of arguments for the constructor: `using Arguments = "
                "std::tuple<...>` in the actor class lists those after Context&; without it there "
                "are none");
  return problem == ArgumentsProblem::kNone;
}

/// Checks the arguments with which an actor of class T is spawned.
template <typename T, typename... Arguments>
struct SpawnArgumentsCheck {
  static constexpr bool value =
      report_spawn<T, problem_of_arguments<ConstructorArgumentsOf<T>, Arguments...>()>();
};

/// Encodes arguments as the parameters' types, so that both sides agree on the encoding.
/// `context`: sees the values; may be null.
template <auto Member, typename... Arguments>
std::vector<std::byte> encode_arguments(EncodeContext* context, Arguments&&... arguments) {
  if constexpr (MethodCheck<Member>::value) {
    if constexpr (CallArgumentsCheck<Member, Arguments...>::value)
      return encode(ArgumentsOf<Member>(std::forward<Arguments>(arguments)...), context);
  }
  return {};
}

/// Encodes the arguments with which an actor is constructed.
template <typename T, typename... Arguments>
std::vector<std::byte> encode_constructor_arguments(Arguments&&... arguments) {
  if constexpr (ActorCheck<T>::value) {
    if constexpr (SpawnArgumentsCheck<T, Arguments...>::value)
      return encode(ConstructorArgumentsOf<T>(std::forward<Arguments>(arguments)...));
  }
  return {};
}

}  // namespace weft::actors::internal
