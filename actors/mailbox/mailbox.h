#pragma once

#include <atomic>
#include <coroutine>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "actors/mailbox/credit.h"
#include "actors/message/message.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// The way back to the process that sent a call. Implemented by links. Any thread.
class ReturnRoute {
 public:
  virtual ~ReturnRoute() = default;
  /// `more`: other replies follow at once, so that they may share a write.
  virtual void reply(Reply reply, bool more) = 0;
  virtual void grant(const Credit& credit) = 0;
  /// Who is at the other end.
  virtual ProcessRef peer() const = 0;
};

/// A call on its way into an actor.
struct Envelope {
  Call call;
  // shared with the system: a reply may come after the connection's end
  std::shared_ptr<ReturnRoute> route;
  TimePoint deadline = TimePoint::max();
};

/// Goes on with a coroutine that was waiting.
struct Resumption {
  std::coroutine_handle<> handle;
  void* frame = nullptr;
};

/// To be told to a sender: what the actor has consumed of what came by `route`, and how much may be
/// in flight.
struct CreditReport {
  std::shared_ptr<ReturnRoute> route;
  Credit credit;
};

/// The queues of one actor: ordinary calls (bounded by credit), urgent calls, and wake-ups.
///
/// Owned by the actor's host. push*, post, cancel and close: any thread. next() and take_reports():
/// the actor's thread.
class Mailbox final {
 public:
  using Task = std::function<void()>;
  struct Stop {};
  using Item = std::variant<Stop, Task, Resumption, Envelope>;
  /// Why a message was not taken.
  enum class Refusal { kNone, kClosed, kOverrun, kUrgentFull };
  static constexpr std::size_t kMaxUrgent = 256;

  Mailbox(ActorId actor, MailboxLimits limits) : actor_(actor), limits_(limits) {}

  /// Takes the envelope, or leaves it as it is and says why not. kOverrun: the sender has no credit
  /// left, which a correct sender never does.
  Refusal push(Envelope& envelope);
  /// False when the mailbox is closed: the task is dropped.
  bool post(Task task);
  bool resume(Resumption resumption);
  /// Lets next() return Stop once, before anything else. The actor decides what to do with what
  /// waits.
  void request_stop();

  /// Waits for the next thing to do: a stop request, then wake-ups and urgent calls, then, if
  /// `ordinary`, ordinary calls in order of arrival.
  Item next(bool ordinary);
  /// True when next(true) would not wait. A hint.
  bool has_more() const { return queued_hint_.load(std::memory_order_relaxed) != 0; }
  /// Credit to tell senders, since the last time. To be called after each item, and before waiting.
  void take_reports(std::vector<CreditReport>& into);

  /// A sender holds calls back and wants to know: the state now, and again when nothing of it waits
  /// any more. Any thread.
  std::optional<Credit> request_report(const ReturnRoute* route);

  /// Takes a waiting call out; nothing if it is not waiting here. Any thread.
  std::optional<Envelope> cancel(const ReturnRoute* route, std::uint64_t call_id);
  /// Whether cancel() has come for the call that next() returned last: for the moment in which that
  /// call waits no more and is not yet known to run. The actor's thread.
  bool last_was_cancelled() const { return last_cancelled_.load(std::memory_order_relaxed); }
  /// Forgets a sender whose connection is gone and drops what waits of it.
  void drop_route(const ReturnRoute* route);
  /// Takes no more; returns what waited.
  std::vector<Envelope> close();

  std::size_t waiting() const;
  std::size_t waiting_bytes() const;

 private:
  /// What is known of one sender.
  struct Sender {
    std::shared_ptr<ReturnRoute> route;
    std::uint64_t received_messages = 0, received_bytes = 0;
    std::uint64_t consumed_messages = 0, consumed_bytes = 0;
    std::uint64_t told_messages = 0, told_bytes = 0;
    std::uint32_t window_messages = kInitialMessages;
    std::uint64_t window_bytes = kInitialBytes;
    bool report = false;
    bool hungry = false;  // wants a report when nothing of it waits
  };
  void consumed(const Envelope& envelope);
  Credit make_report(Sender& sender);
  void wake(std::unique_lock<Mutex>& lock);

  const ActorId actor_;
  const MailboxLimits limits_;

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  bool sleeping_ = false;
  bool closed_ = false;
  bool stop_requested_ = false;
  std::deque<std::variant<Task, Resumption>> wakeups_;
  std::deque<Envelope> urgent_;
  std::deque<Envelope> ordinary_;
  std::size_t ordinary_bytes_ = 0;
  std::map<const ReturnRoute*, Sender> senders_;
  // the call that next() returned last; the route may be gone, and is only compared
  const ReturnRoute* last_route_ = nullptr;
  std::uint64_t last_call_ = 0;
  std::atomic<bool> last_cancelled_{false};
  std::atomic<bool> reports_due_{false};
  std::atomic<std::size_t> queued_hint_{0};  // entries in all three queues
};

}  // namespace weft::actors
