#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/call/pending.h"
#include "actors/mailbox/credit.h"
#include "actors/mailbox/mailbox.h"
#include "core/base/thread.h"

namespace weft::actors {

/// A call that leaves, with what its caller waits on (nothing for tell).
struct OutgoingCall {
  Call call;
  std::shared_ptr<CallState> state;  // shared with the caller's Future
  TimePoint deadline = TimePoint::max();
};

/// The way to one process: keeps the order of calls per actor and holds back what the actor has no
/// credit for.
///
/// Held-back calls are few (kMaxHeld per actor): beyond that a thread that calls waits inside
/// send(), and a handler, which must not wait, gets Error(kResourceExhausted). So memory is bounded
/// on both sides however slow the actor is. Any thread.
class Route : public ReturnRoute {
 public:
  /// Sends, or holds back. False if it cannot be sent at all: its state, if any, has ended with the
  /// error.
  bool send(OutgoingCall outgoing);
  /// The actor has taken messages: sends what was held back.
  void on_credit(const Credit& credit);
  /// Takes back a call that has not left; false if it has, or is not here.
  bool withdraw(ActorId actor, std::uint64_t call_id);
  /// Nothing leaves any more; what is held back ends with the error, as does whatever is sent
  /// later.
  void close(const Error& reason);
  /// What is held back now goes, as far as there is credit.
  void open();
  /// What is sent is held back, until open() or close().
  void suspend();

  std::size_t held() const;

 protected:
  /// Puts a call on its way; called in order, one at a time, under the route's lock. An error is
  /// the end of that call alone.
  virtual std::optional<Error> transmit(OutgoingCall& outgoing) = 0;
  /// Asks an actor for a report of its credit; without the lock.
  virtual void ask(ActorId actor) = 0;
  /// After transmit(), without the lock.
  virtual void flush(bool answer_awaited) = 0;

  mutable Mutex mutex_;  // guards the members, and the order of what transmit() writes

 private:
  struct Target {
    SendWindow window;
    std::deque<OutgoingCall> held;
    std::deque<OutgoingCall> held_urgent;
    bool asked = false;
  };
  /// Waits until the actor has room for a call that is held back, or the route is closed. Returns
  /// nullptr, or why there is no room.
  const char* wait_for_room(std::unique_lock<Mutex>& lock, const OutgoingCall& outgoing);
  /// Sends one now, or holds it back; the lock is held.
  void transmit_or_hold(OutgoingCall&& outgoing);
  /// Sends one now; the lock is held. Errors are collected, to be told without the lock.
  void transmit_now(Target& target, OutgoingCall& outgoing);
  void release(ActorId actor, Target& target);
  void ask_if_held(ActorId actor, Target& target);
  void finish(std::unique_lock<Mutex>& lock, bool answer_awaited);

  std::map<ActorId, Target> targets_;
  bool open_ = false;
  std::optional<Error> closed_;
  Condition room_;
  std::vector<std::pair<std::shared_ptr<CallState>, Error>> failed_;
  std::vector<ActorId> to_ask_;
};

/// `error` with the outcome of this call added to its text.
Error with_outcome(const Error& error, const CallState& call);

}  // namespace weft::actors
