#pragma once

#include <memory>

#include "actors/call/future.h"
#include "actors/call/interface.h"
#include "actors/message/ids.h"
#include "core/base/check.h"

namespace weft::actors {

class System;

/// Placeholder for the system's default deadline.
inline constexpr Nanoseconds kDefaultDeadline = Nanoseconds::zero();

/// Handle of one actor of class T: a plain value that keeps nothing alive. Messages cannot carry
/// it, but its address().
///
///   Future<Report> report = trainer.call<&Trainer::step>(plan);       // sent here
///   trainer.within(10min).call<&Trainer::save>("out").get();
///
/// Calls of one thread, or of one actor, arrive in the order in which they were made. Any thread;
/// the System must be alive.
template <typename T>
class ActorRef final {
 public:
  ActorRef() = default;
  ActorRef(System& system, std::shared_ptr<const ActorAddress> address)
      : system_(&system), address_(std::move(address)) {}

  /// Returns a handle of the same actor with another deadline; kNoDeadline: none.
  ActorRef within(Nanoseconds time) const {
    ActorRef copy = *this;
    copy.within_ = time;
    return copy;
  }

  template <auto Member, typename... Arguments>
  Future<ResultOf<Member>> call(Arguments&&... arguments) const;
  /// Sends a one-way call. Returns false if it cannot be sent at all (the process has ended, the
  /// queue is full). Errors of the handler go to the log of its process.
  template <auto Member, typename... Arguments>
  bool tell(Arguments&&... arguments) const;

  /// Stops the actor: cancels running handlers, refuses waiting calls. Done when the actor has
  /// ended. Fails with kFailedPrecondition unless this process owns the actor: it has spawned,
  /// hosted or taken over it.
  Future<void> stop() const;

  const ActorAddress& address() const {
    WEFT_CHECK(address_, "an empty ActorRef is used");
    return *address_;
  }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  System* system_ = nullptr;
  // shared by copies of the handle and by pending calls
  std::shared_ptr<const ActorAddress> address_;
  Nanoseconds within_ = kDefaultDeadline;
};

}  // namespace weft::actors
