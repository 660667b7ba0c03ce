#pragma once

#include <memory>

#include "actors/call/endpoint_options.h"
#include "actors/call/future.h"
#include "actors/call/interface.h"
#include "actors/call/result_stream.h"
#include "actors/message/ids.h"
#include "core/base/error.h"

namespace weft::actors {

class System;

namespace internal {

/// Throws the error of an empty handle. `type`: "ActorRef" or "MeshRef".
[[noreturn]] inline void throw_empty_handle(const char* type) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the handle is empty: assign the {} a handle from spawn(), find() or a "
                          "call before it is used",
                          type))
      .with(CallProgress::kNotSent);
}

}  // namespace internal

/// Handle of one actor of class T: a plain value that keeps nothing alive. It travels: arguments,
/// results and their fields can be handles. The receiver connects when it first calls the actor.
///
///   Future<Report> report = trainer.call<&Trainer::step>(plan);       // sent here
///   trainer.within(10min).call<&Trainer::save>("out").get();
///
/// Calls of one thread, or of one actor, arrive in the order in which they were made. Each use of
/// an empty handle throws Error(kInvalidArgument). Any thread; the System must be alive.
template <typename T>
class ActorRef final {
 public:
  ActorRef() = default;
  ActorRef(System& system, std::shared_ptr<const ActorAddress> address)
      : system_(&system), address_(std::move(address)) {}

  /// Returns a handle of the same actor with another deadline; kNoDeadline: none. With zero or less
  /// its calls fail with kDeadlineExceeded at once, and are not sent.
  ActorRef within(Nanoseconds time) const {
    ActorRef copy = *this;
    copy.within_ = time;
    return copy;
  }

  template <auto Member, typename... Arguments>
  Future<ResultOf<Member>> call(Arguments&&... arguments) const;
  /// Calls a generator. The stream gives its values, and at last its error if it fails.
  template <auto Member, typename... Arguments>
  ResultStream<ResultOf<Member>, Outcome<ResultOf<Member>>> stream(Arguments&&... arguments) const;
  /// Sends a one-way call; within() does not apply. If the actor was spawned with a policy or
  /// without a device, returns true, and each error, also of the handler, goes to the log of this
  /// process. Otherwise returns false if the call cannot be sent (the process has ended, the
  /// mailbox is full), and errors of the handler go to the log of its process.
  template <auto Member, typename... Arguments>
  bool tell(Arguments&&... arguments) const;

  /// Stops the actor: cancels running handlers, refuses waiting calls. Done when the actor has
  /// ended, or if its process has died. Fails with kFailedPrecondition unless this process owns the
  /// actor: it has spawned, hosted or taken over it.
  Future<void> stop() const;

  const ActorAddress& address() const {
    (void)system();
    return *address_;
  }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  friend struct weft::codec<ActorRef>;
  System& system() const {
    if (!address_) internal::throw_empty_handle("ActorRef");
    return *system_;
  }

  System* system_ = nullptr;
  // shared by copies of the handle and by pending calls
  std::shared_ptr<const ActorAddress> address_;
  Nanoseconds within_ = kDefaultDeadline;
};

namespace internal {

/// Returns the system to which handles in decoded bytes belong. Throws Error(kInvalidArgument) if
/// the bytes are no argument and no result of a call.
System& system_of(const ByteReader& reader);
/// Returns the system that has made a call.
System& system_of(const CallState& call);
/// Returns the address with which other processes reach an actor: with the port on which this
/// process listens now, if the actor is here.
ActorAddress address_for_peers(const System& system, const ActorAddress& address);
/// Throws Error(kIncompatible) unless a handle's interface is the one that this program declares.
/// `label`: names the actor in the error.
void check_handle(const InterfaceVersion& sent, const InterfaceVersion& own,
                  const std::string& label);

}  // namespace internal

}  // namespace weft::actors

/// Codec of handles: the address and the interface. The fingerprint does not cover T, whose methods
/// may take handles of T: each handle is compared when it is read.
template <typename T>
struct weft::codec<weft::actors::ActorRef<T>> {
  using Ref = actors::ActorRef<T>;
  static constexpr std::size_t kMinBytes = 1;
  static constexpr std::uint64_t kFingerprint = fingerprint_of("actor handle");
  static void write(ByteWriter& writer, const Ref& ref) {
    write_value(writer, static_cast<bool>(ref));
    if (!ref) return;
    write_value(writer, actors::interface_version<T>());
    write_value(writer, actors::internal::address_for_peers(*ref.system_, ref.address()));
  }
  static Ref read(ByteReader& reader) {
    if (!read_value<bool>(reader)) return Ref();
    const auto interface = read_value<actors::InterfaceVersion>(reader);
    auto address = read_value<actors::ActorAddress>(reader);
    actors::internal::check_handle(interface, actors::interface_version<T>(), address.label);
    return Ref(actors::internal::system_of(reader),
               std::make_shared<const actors::ActorAddress>(std::move(address)));
  }
};
