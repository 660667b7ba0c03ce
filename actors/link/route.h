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

/// Outgoing call and the state that its caller waits on; null for tell.
struct OutgoingCall {
  Call call;
  std::shared_ptr<CallState> state;  // shared with the caller's Future
  TimePoint deadline = TimePoint::max();
  /// True if the call has waited for a restart: the calls that did so are bounded elsewhere, and
  /// need no space among the held ones.
  bool has_waited = false;
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
  /// Fails all held-back and all later calls with `reason`.
  void close(const Error& reason);
  /// Sends the held-back calls as far as there is credit, and later calls at once.
  void open();
  /// Holds back all calls until open() or close().
  void suspend();

  std::size_t held() const;

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
  struct Target {
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
  std::optional<Error> closed_;
  Condition queue_space_;
  std::vector<std::pair<std::shared_ptr<CallState>, Error>> failed_;
  std::vector<ActorId> credit_requests_;
};

/// Fails a call whose process is lost for the reason `why`, unless its owner sends it elsewhere.
void lose_call(const std::shared_ptr<CallState>& call, const Error& why);

}  // namespace weft::actors
