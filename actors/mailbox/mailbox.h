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

/// Route for replies to the process that sent a call. Implemented by links. Any thread.
class ReturnRoute {
 public:
  virtual ~ReturnRoute() = default;
  /// Sends a reply. `more`: other replies follow at once and may share the write.
  virtual void reply(Reply reply, bool more) = 0;
  virtual void grant(const Credit& credit) = 0;
  /// Sends values of a generator to the reader.
  virtual void send_values(Values values) = 0;
  /// Runs `send` soon, on the thread that writes: what is queued until then can share a message.
  /// Within a process, runs it at once.
  virtual void run_soon(std::function<void()> send) = 0;
  /// Returns false if the calls of this route are limited elsewhere, and take no credit.
  virtual bool needs_credit() const { return true; }
  /// Returns the process at the other end.
  virtual ProcessRef peer() const = 0;
};

/// Incoming call with its return route and deadline.
struct Envelope {
  Call call;
  // shared with the system: a reply may come after the connection's end
  std::shared_ptr<ReturnRoute> route;
  TimePoint deadline = TimePoint::max();
  bool concurrent = false;  ///< True if its method is `concurrent`. Set by the actor's process.
};

/// Suspended coroutine that is to be resumed, with its CallFrame.
struct Resumption {
  std::coroutine_handle<> handle;
  void* frame = nullptr;
};

/// Credit report for the sender at `route`: what the actor has consumed, and how much may be in
/// flight.
struct CreditReport {
  std::shared_ptr<ReturnRoute> route;
  Credit credit;
};

/// Queues of one actor: ordinary calls (bounded by credit), urgent calls, wake-ups, and handlers
/// that are to be resumed later than other work.
///
/// Owned by the actor's host. Any thread, except next(), try_next() and drain_credit_reports(): the
/// actor's thread.
class Mailbox final {
 public:
  using Task = std::function<void()>;
  struct Stop {};
  using Item = std::variant<Stop, Task, Resumption, Envelope>;
  /// Reason why push() rejects a message.
  enum class Refusal { kNone, kClosed, kOverrun, kUrgentFull };
  static constexpr std::size_t kMaxUrgent = 256;
  /// Ordinary calls that next() returns. They keep their order: kConcurrent returns the first one
  /// if it is concurrent. kNoTasks returns none, and holds tasks back.
  enum class Ordinary : std::uint8_t { kNoTasks, kNone, kConcurrent, kAll };

  /// `on_ready`: called when there may be work again after try_next() returned none, by the thread
  /// that brought it. Must not block.
  Mailbox(ActorId actor, MailboxLimits limits, std::function<void()> on_ready = nullptr)
      : actor_(actor), limits_(limits), on_ready_(std::move(on_ready)) {}

  /// Takes the envelope, or leaves it unchanged and returns the reason. kOverrun: the sender
  /// exceeded its credit, which a correct sender never does.
  Refusal push(Envelope& envelope);
  /// Queues a task. Returns false and drops the task if the mailbox is closed.
  bool post(Task task);
  bool resume(Resumption resumption);
  /// Like resume(), but work that can start now precedes it; of ordinary calls, one.
  void resume_later(Resumption resumption);
  /// Makes next() return Stop once, before anything else. The actor decides about the waiting
  /// calls.
  void request_stop();

  /// Blocks until there is work and returns it: a stop request first, then wake-ups, urgent calls,
  /// and by turns ordinary calls in order of arrival and what resume_later() has queued.
  Item next(Ordinary ordinary);
  /// Like next(), but returns nullopt if there is no work. `on_ready` is then called once.
  std::optional<Item> try_next(Ordinary ordinary);
  /// Returns true if next(Ordinary::kAll) would not block. A hint.
  bool has_more() const { return queued_hint_.load(std::memory_order_relaxed) != 0; }
  /// Returns true if credit reports are due.
  bool has_credit_reports() const { return reports_due_.load(std::memory_order_relaxed); }
  /// Appends the credit reports that are due. Call it after each item and before waiting.
  void drain_credit_reports(std::vector<CreditReport>& into);

  /// Returns the credit of a sender that holds calls back. Reports again when none of its calls
  /// wait. nullopt if the sender is unknown. Any thread.
  std::optional<Credit> request_report(const ReturnRoute* route);

  /// Removes and returns a waiting call; nullopt if it does not wait here. Any thread.
  std::optional<Envelope> cancel(const ReturnRoute* route, std::uint64_t call_id);
  /// Returns true if cancel() was called for the call that next() returned last. Covers the time
  /// after the call left the queue and before it is known to run. The actor's thread.
  bool last_was_cancelled() const { return last_cancelled_.load(std::memory_order_relaxed); }
  /// Returns true if remove_sender() was called for the sender of the call that next() returned
  /// last. The actor's thread.
  bool last_lost_its_sender() const { return last_lost_.load(std::memory_order_relaxed); }
  /// Removes a sender whose connection has ended and drops its waiting calls.
  void remove_sender(const ReturnRoute* route);
  /// Rejects calls from now on and returns the waiting ones.
  std::vector<Envelope> close();

  std::size_t waiting() const;
  std::size_t waiting_bytes() const;

 private:
  /// Credit accounting of one sender.
  struct SenderCredit {
    std::shared_ptr<ReturnRoute> route;
    std::uint64_t received_messages = 0, received_bytes = 0;
    std::uint64_t consumed_messages = 0, consumed_bytes = 0;
    std::uint64_t reported_messages = 0, reported_bytes = 0;
    std::uint32_t window_messages = kInitialMessages;
    std::uint64_t window_bytes = kInitialBytes;
    bool report = false;
    bool report_when_drained = false;  // report credit once all its calls are consumed
  };
  /// Queue from which the next item is taken.
  enum class Source : std::uint8_t { kNone, kStop, kHeldTask, kWakeup, kUrgent, kOrdinary, kLater };
  Source find_source(Ordinary ordinary);
  Item take(Source source);
  void update_hint();
  void consumed(const Envelope& envelope);
  /// Counts a call of a sender. Returns false if the sender has exceeded its credit by far.
  bool use_credit(const std::shared_ptr<ReturnRoute>& route, std::size_t bytes);
  Credit make_report(SenderCredit& sender);
  void wake(std::unique_lock<Mutex>& lock);

  const ActorId actor_;
  const MailboxLimits limits_;
  const std::function<void()> on_ready_;  // null if the actor's thread waits in next()

  mutable Mutex mutex_;  // guards the members below
  Condition changed_;
  bool sleeping_ = false;  // the actor's thread waits, or `on_ready_` is to be called
  bool closed_ = false;
  bool stop_requested_ = false;
  std::deque<std::variant<Task, Resumption>> wakeups_;
  std::deque<Task> held_tasks_;    // earlier than those in wakeups_
  std::vector<Resumption> later_;  // few; an empty deque would take 600 bytes per actor
  bool ordinary_first_ = true;     // an ordinary call precedes the next entry of later_
  std::deque<Envelope> urgent_;
  std::deque<Envelope> ordinary_;
  std::size_t ordinary_bytes_ = 0;
  std::map<const ReturnRoute*, SenderCredit> senders_;
  // the call that next() returned last; the route may be dangling and is only compared
  const ReturnRoute* last_route_ = nullptr;
  std::uint64_t last_call_ = 0;
  std::atomic<bool> last_cancelled_{false};
  std::atomic<bool> last_lost_{false};
  std::atomic<bool> reports_due_{false};
  std::atomic<std::size_t> queued_hint_{0};  // entries in all queues
};

}  // namespace weft::actors
