#pragma once

#include <array>
#include <cstdint>
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

/// Calls of this process that travel in another one, to a relay. Any thread.
class CarriedCalls {
 public:
  /// Called once, under the route's lock, when the other call leaves this process: notes that the
  /// calls have left with it. Changes its arguments so that those that have ended do not start.
  virtual void leave(std::vector<std::byte>& arguments) = 0;

 protected:
  ~CarriedCalls() = default;
};

/// Outgoing call and the state that its caller waits on; null for tell.
struct OutgoingCall {
  Call call;
  std::shared_ptr<CallState> state;  // shared with the caller's Future
  TimePoint deadline = TimePoint::max();
  /// True if the call has waited for a restart: the calls that did so are bounded elsewhere, and
  /// need no space among the held ones.
  bool has_waited = false;
  /// Lowest minor version of the protocol that understands the call. Needs `state` unless 0.
  std::uint8_t needs_minor = 0;
  // Null for most calls. Shared with the part of the tree that the call brings.
  std::shared_ptr<CarriedCalls> carried = nullptr;
};

/// Route to one process. Keeps the order of calls per actor and holds back calls without credit.
///
/// At most kMaxHeldCalls calls per actor are held back. Beyond that send() blocks a thread; a
/// handler, which must not block, gets Error(kResourceExhausted), and a `blocking` handler that is
/// cancelled Error(kCancelled). Memory is thus bounded on both
/// sides, however slow the actor is. Any thread.
class Route : public ReturnRoute {
 public:
  /// Sends a call or holds it back. Returns false if it cannot be sent; its state, if any, has then
  /// failed.
  bool send(OutgoingCall outgoing);
  /// Applies an actor's credit report and sends held-back calls.
  void on_credit(const Credit& credit);
  /// Removes a held-back call. Returns false if it was sent or is unknown.
  bool withdraw(ActorId actor, std::uint64_t call_id);
  /// Takes back the held-back calls of an actor, as its process lives and it does not. Each fails
  /// with `reason`, unless its owner sends it elsewhere.
  void return_held(ActorId actor, const Error& reason);
  /// Fails all held-back and all later calls with `reason`.
  void close(const Error& reason);
  /// Sends the held-back calls as far as there is credit, and later calls at once.
  void open();
  /// Holds back all calls until open() or close().
  void suspend();

  std::size_t held() const;

  /// Calls of one process that travel to an actor over relays at once, at most. They take no credit
  /// of the mailbox: an answer is the credit. A call of more than kInitialBytes travels alone.
  static constexpr std::uint32_t kMaxRelayed = 16;
  /// Numbers a call to an actor of this process that travels over relays, so that it keeps its
  /// place among those of this route. nullopt if the call must be sent here: others are held back,
  /// too many are on their way, or the connection is lost. relay_done() must follow.
  std::optional<CallOrder> reserve_relayed(const Call& call, std::size_t bytes);
  /// Sets the stream of numbered calls, which is larger than those of earlier routes to the
  /// process. Before others use this route.
  void set_stream(std::uint64_t stream) { stream_ = stream; }
  /// Begins the stream `next` if the present one is `ended`: its receiver does not know it any
  /// more. Calls on their way come back.
  void end_stream(std::uint64_t ended, std::uint64_t next);
  /// Frees the place of a call that travelled over relays.
  void relay_done(ActorId actor, bool urgent, std::size_t bytes);

 protected:
  /// Writes a call. Called in order, one at a time, under the route's lock. An error fails this
  /// call only.
  virtual std::optional<Error> transmit(OutgoingCall& outgoing) = 0;
  /// Requests a credit report from an actor. Called without the lock.
  virtual void request_credit(ActorId actor) = 0;
  /// Flushes written calls. Called after transmit(), without the lock.
  virtual void flush(bool answer_awaited) = 0;

  mutable Mutex mutex_;  // guards the members, and the order of writes by transmit()

 private:
  /// Ordinary or urgent calls to an actor.
  struct Lane {
    std::uint64_t last_number = 0;  ///< 0 until the first call travels over relays.
    bool used = false;              ///< Calls have been written here.
    std::uint32_t relayed = 0;      ///< Calls that travel over relays, and their bytes.
    std::size_t relayed_bytes = 0;
  };
  struct Target {
    std::array<Lane, 2> lanes;  ///< Ordinary, urgent.
    SendWindow window;
    std::deque<OutgoingCall> held;
    std::deque<OutgoingCall> held_urgent;
    bool credit_requested = false;
  };
  class CancellableWait;
  /// Reason why a call is not sent.
  struct Problem {
    ErrorCode code;
    const char* text;
  };
  /// Call that transmit() has refused.
  struct RefusedCall {
    std::shared_ptr<CallState> state;
    Error error;
    ActorId actor;
  };
  /// Fails a call, or sends it again if its actor is being restarted. Without the lock.
  void refuse(RefusedCall& refused);
  /// Blocks until the actor has room for a held-back call or the route is closed. Returns the
  /// reason if there is no room.
  std::optional<Problem> wait_for_queue_space(std::unique_lock<Mutex>& lock,
                                              const OutgoingCall& outgoing);
  /// Sends a call now or holds it back. The lock is held.
  void transmit_or_hold(OutgoingCall&& outgoing);
  /// Sends a call now. The lock is held; finish() reports collected errors without it.
  void transmit_now(Target& target, OutgoingCall& outgoing);
  void release(ActorId actor, Target& target);
  void request_credit_if_held(ActorId actor, Target& target);
  void finish(std::unique_lock<Mutex>& lock, bool answer_awaited);

  std::map<ActorId, Target> targets_;
  bool open_ = false;
  bool suspended_ = false;
  std::uint64_t stream_ = 0;  // of numbered calls; 0: none, no call is numbered
  std::optional<Error> closed_;
  Condition queue_space_;
  std::vector<RefusedCall> failed_;
  std::vector<ActorId> credit_requests_;
};

/// Fails a call whose process is lost for the reason `why`, unless its owner sends it elsewhere.
void lose_call(const std::shared_ptr<CallState>& call, const Error& why);

}  // namespace weft::actors
