#pragma once

// Templates of ActorRef and MeshRef that need the System. Included by system.h.

#include <ranges>

#include "actors/call/call_reduction.h"
#include "actors/call/call_stream.h"
#include "actors/system/directory.h"
#include "actors/system/mesh_arguments.h"
#include "actors/system/system.h"

namespace weft::actors {

namespace internal {

template <typename T, auto Member>
constexpr System::Method method_of() {
  if constexpr (!CallCheck<T, Member>::value) return {};
  else {
    constexpr std::uint32_t index = method_index<T, Member>();
    return {T::endpoints.names[index],      index,
            interface_fingerprint<T>(),     T::endpoints.urgent[index],
            T::endpoints.idempotent[index], T::endpoints.deadline[index]};
  }
}

/// True if a value is the only argument of the handler, or a tuple of all.
template <auto Member, typename Item>
constexpr bool is_item_of() {
  using Tuple = ArgumentsOf<Member>;
  if constexpr (std::is_same_v<std::remove_cvref_t<Item>, Tuple>) return true;
  else return std::tuple_size_v<Tuple> == 1 && std::is_constructible_v<Tuple, Item>;
}

/// Encodes an item of map() or scatter().
template <auto Member, typename Item>
std::vector<std::byte> encode_item(MeshArguments& context, Item&& item) {
  using Tuple = ArgumentsOf<Member>;
  using Value = std::remove_cvref_t<Item>;
  // The encoding of a tuple is that of its elements.
  if constexpr (std::is_same_v<Value, Tuple> || std::is_same_v<std::tuple<Value>, Tuple>)
    return encode<Value>(item, context.next());
  else return encode_arguments<Member>(context.next(), std::forward<Item>(item));
}

/// Encodes the arguments of a call of all `actors`, and announces the values that all receive.
template <auto Member, typename... Arguments>
std::vector<std::byte> encode_for_all(System& system, const MeshArguments::Actors& actors,
                                      Arguments&&... arguments) {
  MeshArguments context(system, actors);
  auto encoded = encode_arguments<Member>(context.next(), std::forward<Arguments>(arguments)...);
  context.announce();
  return encoded;
}

/// Refuses operations of reduce() that do not fit the handler's results.
template <typename T, auto Member, typename Operation>
constexpr bool is_reducible() {
  constexpr bool is_listed = is_reduce_with<Operation>;
  constexpr bool is_known = is_listed || std::is_same_v<Operation, Sum> ||
                            std::is_same_v<Operation, Min> || std::is_same_v<Operation, Max> ||
                            std::is_same_v<Operation, Mean>;
  static_assert(is_known, "reduce() takes sum, min, max, mean or reduce_with<&T::f>");
  using R = ResultOf<Member>;
  if constexpr (is_listed) {
    constexpr std::uint32_t index = method_index<T, Member>();
    constexpr bool fits = T::endpoints.has_combine[index] &&
                          ListedCombine<R, Operation>::kFunction == T::endpoints.combine[index];
    static_assert(fits,
                  "the method's endpoint does not list this function: on<&T::m>(\"m\", "
                  "reduce_with<&T::f>)");
    return fits;
  } else {
    constexpr bool fits = !is_known || Elements<R>::kReducible;
    static_assert(
        fits,
        "sum, min, max and mean need a method that returns a number, or a vector or array "
        "of numbers; combine other results with reduce_with<&T::f>");
    return is_known && fits;
  }
}

/// Returns a Future of the ends of actors. Those whose processes have died have ended.
inline Future<void> future_of_ends(std::vector<std::shared_ptr<CallState>> stops) {
  return Future<void>(CallGroup::make(std::move(stops), CallGroup::OnError::kCollect),
                      [](Pending& pending) {
                        const auto& group = static_cast<CallGroup&>(pending);
                        if (group.error()) throw *group.error();
                        for (const auto& stop : group.parts())
                          if (stop->error() && stop->error()->code() != ErrorCode::kPeerDied)
                            throw *stop->error();
                      });
}

}  // namespace internal

template <typename T>
MeshRef<T> internal::take_found(CallState& call) {
  return handle_of_found<T>(system_of(call), take_result<NamedActors>(call));
}

template <typename T>
MeshRef<T> internal::handle_of_found(System& system, NamedActors found) {
  check_handle(found.interface, interface_version<T>(), found.name);
  typename MeshRef<T>::Addresses addresses;
  for (ActorAddress& address : found.addresses)
    addresses.push_back(std::make_shared<const ActorAddress>(std::move(address)));
  return MeshRef<T>(system, std::move(found.name), std::move(found.shape), std::move(addresses));
}

template <typename T>
Future<ActorRef<T>> Context::find(const std::string& name, Nanoseconds within) const {
  return system_.find<T>(name, within);
}

template <typename T>
Future<MeshRef<T>> Context::find_mesh(const std::string& name, Nanoseconds within) const {
  return system_.find_mesh<T>(name, within);
}

template <typename T>
template <auto Member, typename... Arguments>
Future<ResultOf<Member>> ActorRef<T>::call(Arguments&&... arguments) const {
  static_cast<void>(internal::check_one_result<Member>());
  return future_of<ResultOf<Member>>(system().call(
      address_, internal::method_of<T, Member>(), within_,
      internal::encode_arguments<Member>(nullptr, std::forward<Arguments>(arguments)...)));
}

template <typename T>
template <auto Member, typename... Arguments>
bool ActorRef<T>::tell(Arguments&&... arguments) const {
  static_cast<void>(internal::check_one_result<Member>());
  return system().tell(
      address_, internal::method_of<T, Member>(),
      internal::encode_arguments<Member>(nullptr, std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
ResultStream<ResultOf<Member>, Outcome<ResultOf<Member>>> ActorRef<T>::stream(
    Arguments&&... arguments) const {
  constexpr bool fits = !internal::CallCheck<T, Member>::value || kIsGenerator<Member>;
  static_assert(fits,
                "stream() of one actor reads a generator, and this method has one result: use "
                "call<&T::method>(...)");
  return ResultStream<ResultOf<Member>, Outcome<ResultOf<Member>>>(system().stream(
      {address_}, internal::method_of<T, Member>(), within_,
      internal::encode_arguments<Member>(nullptr, std::forward<Arguments>(arguments)...)));
}

template <typename T>
ActorRef<T> Context::handle() const {
  return system_.ref<T>(self());
}

template <typename T>
Future<void> ActorRef<T>::stop() const {
  return internal::future_of_ends({system().stop_actor(address_, within_)});
}

template <typename T>
template <auto Member, typename... Arguments>
std::vector<std::shared_ptr<CallState>> MeshRef<T>::call_each(Arguments&&... arguments) const {
  return system().call_all(
      actors_, internal::method_of<T, Member>(), within_,
      internal::encode_for_all<Member>(*system_, actors_, std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
Future<typename AllOf<ResultOf<Member>>::Result> MeshRef<T>::call(Arguments&&... arguments) const {
  static_cast<void>(internal::check_one_result<Member>());
  return future_of_all<ResultOf<Member>>(call_each<Member>(std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
Future<std::vector<Outcome<ResultOf<Member>>>> MeshRef<T>::call_collect(
    Arguments&&... arguments) const {
  static_cast<void>(internal::check_one_result<Member>());
  return future_of_each<ResultOf<Member>>(call_each<Member>(std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
Future<ResultOf<Member>> MeshRef<T>::call_one(Arguments&&... arguments) const {
  (void)system();
  if (size() != 1)
    throw_error(ErrorCode::kInvalidArgument,
                "call_one on {}{}, which has {} actors; slice it down to one first", name_,
                to_string(shape_), size());
  return rank(0).template call<Member>(std::forward<Arguments>(arguments)...);
}

template <typename T>
template <auto Member, typename... Arguments>
void MeshRef<T>::tell(Arguments&&... arguments) const {
  static_cast<void>(internal::check_one_result<Member>());
  system().tell_all(
      actors_, internal::method_of<T, Member>(),
      internal::encode_for_all<Member>(*system_, actors_, std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename Argument>
Future<typename AllOf<ResultOf<Member>>::Result> MeshRef<T>::scatter(
    const std::vector<Argument>& per_rank) const {
  static_cast<void>(internal::check_one_result<Member>());
  System& of = system();
  if (per_rank.size() != actors_.size())
    throw_error(ErrorCode::kInvalidArgument,
                "scatter of {} arguments over {}{}, which has {} actors", per_rank.size(), name_,
                to_string(shape_), size());
  std::vector<std::vector<std::byte>> encoded;  // all before the first call: one may throw
  MeshArguments context(of, actors_);
  for (std::size_t i = 0; i < per_rank.size(); ++i)
    encoded.push_back(internal::encode_item<Member>(context, per_rank[i]));
  context.announce();
  return future_of_all<ResultOf<Member>>(
      of.call_each(actors_, internal::method_of<T, Member>(), within_, std::move(encoded)));
}

template <typename T>
template <auto Member, typename... Arguments>
ResultStream<ResultOf<Member>> MeshRef<T>::stream(Arguments&&... arguments) const {
  if constexpr (kIsGenerator<Member>) {
    return ResultStream<ResultOf<Member>>(
        system().stream(actors_, internal::method_of<T, Member>(), within_,
                        internal::encode_for_all<Member>(*system_, actors_,
                                                         std::forward<Arguments>(arguments)...)));
  } else {
    return ResultStream<ResultOf<Member>>(
        CallStream::make(call_each<Member>(std::forward<Arguments>(arguments)...)));
  }
}

template <typename T>
template <auto Member, typename Items>
ResultStream<ResultOf<Member>> MeshRef<T>::map(Items&& items, MapOptions options) const {
  static_cast<void>(internal::check_one_result<Member>());
  static_assert(std::ranges::input_range<Items>, "map() takes a range of items, e.g. a vector");
  if constexpr (std::ranges::input_range<Items>) {
    constexpr bool fits = internal::is_item_of<Member, std::ranges::range_reference_t<Items>>();
    static_assert(fits,
                  "an item of map() is the only argument of the method, or a std::tuple of all its "
                  "arguments");
    System& of = system();
    std::vector<std::vector<std::byte>> encoded;
    MeshArguments context(*system_, actors_);
    if constexpr (fits)
      for (auto&& item : items)
        encoded.push_back(
            internal::encode_item<Member>(context, std::forward<decltype(item)>(item)));
    // Fewer items would not reach all actors.
    if (encoded.size() >= actors_.size()) context.announce();
    constexpr System::Method method = internal::method_of<T, Member>();
    return ResultStream<ResultOf<Member>>(MapRun::start(
        {actors_, options, method.idempotent,
         [system = &of, within = within_](const std::shared_ptr<const ActorAddress>& actor,
                                          std::vector<std::byte>&& arguments) {
           return system->call(actor, internal::method_of<T, Member>(), within,
                               std::move(arguments));
         }},
        std::move(encoded)));
  } else {
    return ResultStream<ResultOf<Member>>(nullptr);
  }
}

template <typename T>
template <auto Member, typename... Arguments>
Future<ResultOf<Member>> MeshRef<T>::choose(Arguments&&... arguments) const {
  return rank(static_cast<std::int64_t>(system().less_loaded(actors_)))
      .template call<Member>(std::forward<Arguments>(arguments)...);
}

template <typename T>
template <auto Member, typename Operation, typename... Arguments>
Future<ReducedOf<ResultOf<Member>, Operation>> MeshRef<T>::reduce(Operation,
                                                                  Arguments&&... arguments) const {
  using R = ResultOf<Member>;
  using Reduced = ReducedOf<R, Operation>;
  if constexpr (!internal::check_one_result<Member>()) {
    return Future<Reduced>(nullptr, nullptr);
  } else if constexpr (internal::is_reducible<T, Member, Operation>()) {
    constexpr ReduceOperation operation = internal::reduce_operation<Operation>();
    auto calls = system().call_all(
        actors_, internal::method_of<T, Member>(), within_,
        internal::encode_for_all<Member>(*system_, actors_, std::forward<Arguments>(arguments)...),
        operation);
    return Future<Reduced>(
        CallReduction::make(std::move(calls), operation, combine_of<T, Member>()),
        [](Pending& pending) -> Reduced {
          auto& reduction = static_cast<CallReduction&>(pending);
          R result = decode<R>(reduction.take(), reduction.decode_context());
          if constexpr (std::is_same_v<Operation, Mean>)
            return internal::divide(result, reduction.size());
          else return result;
        });
  } else {
    return Future<Reduced>(nullptr, nullptr);
  }
}

template <typename T>
template <typename Report>
Future<std::vector<Outcome<Report>>> MeshRef<T>::reports() const {
  System& of = system();
  std::vector<std::shared_ptr<CallState>> calls;
  for (const auto& actor : actors_) calls.push_back(of.ask_report(actor, within_));
  return future_of_each<Report>(std::move(calls));
}

template <typename T>
Future<void> MeshRef<T>::stop() const {
  System& of = system();
  std::vector<std::shared_ptr<CallState>> stops;
  for (const auto& actor : actors_) stops.push_back(of.stop_actor(actor, within_));
  return internal::future_of_ends(std::move(stops));
}

}  // namespace weft::actors
