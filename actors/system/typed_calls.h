#pragma once

// Templates of ActorRef and MeshRef that need the System. Included by system.h.

#include "actors/system/directory.h"
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
  WEFT_CHECK(address_, "an empty ActorRef is called");
  return future_of<ResultOf<Member>>(
      system_->call(address_, internal::method_of<T, Member>(), within_,
                    internal::encode_arguments<Member>(std::forward<Arguments>(arguments)...)));
}

template <typename T>
template <auto Member, typename... Arguments>
bool ActorRef<T>::tell(Arguments&&... arguments) const {
  WEFT_CHECK(address_, "an empty ActorRef is called");
  return system_->tell(address_, internal::method_of<T, Member>(),
                       internal::encode_arguments<Member>(std::forward<Arguments>(arguments)...));
}

template <typename T>
ActorRef<T> Context::handle() const {
  return system_.ref<T>(self());
}

template <typename T>
Future<void> ActorRef<T>::stop() const {
  WEFT_CHECK(address_, "an empty ActorRef is stopped");
  return future_of<void>(system_->stop_actor(address_, within_));
}

template <typename T>
template <auto Member, typename... Arguments>
std::vector<std::shared_ptr<CallState>> MeshRef<T>::call_each(Arguments&&... arguments) const {
  const auto bytes = internal::encode_arguments<Member>(std::forward<Arguments>(arguments)...);
  std::vector<std::shared_ptr<CallState>> calls;
  for (const auto& actor : actors_)
    calls.push_back(system_->call(actor, internal::method_of<T, Member>(), within_, bytes));
  return calls;
}

template <typename T>
template <auto Member, typename... Arguments>
Future<typename AllOf<ResultOf<Member>>::Result> MeshRef<T>::call(Arguments&&... arguments) const {
  return future_of_all<ResultOf<Member>>(call_each<Member>(std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
Future<std::vector<Outcome<ResultOf<Member>>>> MeshRef<T>::call_collect(
    Arguments&&... arguments) const {
  return future_of_each<ResultOf<Member>>(call_each<Member>(std::forward<Arguments>(arguments)...));
}

template <typename T>
template <auto Member, typename... Arguments>
Future<ResultOf<Member>> MeshRef<T>::call_one(Arguments&&... arguments) const {
  if (size() != 1)
    throw_error(ErrorCode::kInvalidArgument,
                "call_one on {}{}, which has {} actors; slice it down to one first", name_,
                to_string(shape_), size());
  return rank(0).template call<Member>(std::forward<Arguments>(arguments)...);
}

template <typename T>
template <auto Member, typename... Arguments>
void MeshRef<T>::tell(Arguments&&... arguments) const {
  const auto bytes = internal::encode_arguments<Member>(std::forward<Arguments>(arguments)...);
  for (const auto& actor : actors_) system_->tell(actor, internal::method_of<T, Member>(), bytes);
}

template <typename T>
template <auto Member, typename Argument>
Future<typename AllOf<ResultOf<Member>>::Result> MeshRef<T>::scatter(
    const std::vector<Argument>& per_rank) const {
  if (per_rank.size() != actors_.size())
    throw_error(ErrorCode::kInvalidArgument,
                "scatter of {} arguments over {}{}, which has {} actors", per_rank.size(), name_,
                to_string(shape_), size());
  using Tuple = ArgumentsOf<Member>;
  std::vector<std::shared_ptr<CallState>> calls;
  for (std::size_t i = 0; i < per_rank.size(); ++i) {
    std::vector<std::byte> bytes;
    if constexpr (std::is_same_v<Argument, Tuple>) bytes = encode<Tuple>(per_rank[i]);
    else bytes = internal::encode_arguments<Member>(per_rank[i]);
    calls.push_back(
        system_->call(actors_[i], internal::method_of<T, Member>(), within_, std::move(bytes)));
  }
  return future_of_all<ResultOf<Member>>(std::move(calls));
}

template <typename T>
template <typename Report>
Future<std::vector<Outcome<Report>>> MeshRef<T>::reports() const {
  std::vector<std::shared_ptr<CallState>> calls;
  for (const auto& actor : actors_) calls.push_back(system_->ask_report(actor, within_));
  return future_of_each<Report>(std::move(calls));
}

template <typename T>
void MeshRef<T>::stop() const {
  stop(system_->options().default_deadline);
}

template <typename T>
void MeshRef<T>::stop(Nanoseconds within) const {
  std::vector<std::shared_ptr<CallState>> calls;
  for (const auto& actor : actors_) calls.push_back(system_->stop_actor(actor, within));
  if (on_actor_thread()) return;  // a handler must not block
  for (const auto& call : calls) call->wait_until(TimePoint::max());
  for (const auto& call : calls)
    if (call->error() && call->error()->code() == ErrorCode::kDeadlineExceeded)
      throw *call->error();
}

}  // namespace weft::actors
