#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"
#include "core/codec/bytes.h"

namespace weft::actors {

/// Operation that completes exactly once; a Future waits for it.
///
/// Shared by the Future and the completing side; either may release it first. Any thread.
class Pending {
 public:
  Pending();
  virtual ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Blocks until done or until the time `until`. Returns true if done.
  bool wait_until(TimePoint until);
  /// Calls `then` once, on the thread that completes the operation, or at once on this thread if it
  /// is done already. Several callbacks run in the order in which they were added, but those of
  /// watch() last. Waiters wake up before them.
  void when_done(std::function<void()> then);
  /// Like when_done(), until forget(watcher). Leaves later calls of when_done() and wait_until()
  /// as they are.
  void watch(const void* watcher, std::function<void()> then);
  /// Drops the callbacks of `watcher`. One that has begun still runs to its end.
  void forget(const void* watcher);
  /// Asks the other side to stop, and completes with Error(kCancelled) unless done. Messages that
  /// are sent because of the error arrive behind the request to stop.
  virtual void cancel() = 0;
  /// Returns how far the calls of an operation that is not done have gone.
  virtual CallProgress progress() const { return CallProgress::kNoCall; }

 protected:
  /// Returns true for the first caller only, which sets the result and then calls publish(). Nobody
  /// reads the result before publish().
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }
  void publish();

 private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> done_{false};
  Mutex mutex_;
  Condition changed_;
  bool waiting_ = false;
  std::function<void()> then_;
  /// Further callbacks. Null for most operations, which have one at most.
  struct Callbacks;
  std::unique_ptr<Callbacks> further_;
};

class CallState;

/// Reader of the values that generators yield before their calls end. Any thread.
class ValueReader {
 public:
  /// Takes some values of a call, in order. Throws Error(kDataLoss) if they are more than the
  /// window allows, which a correct sender never sends.
  virtual void on_values(const CallState& call, std::vector<std::vector<std::byte>> values) = 0;

 protected:
  ~ValueReader() = default;
};

/// Destination of the values of one call.
struct ValueSink {
  // Weak: the reader keeps its calls. Values that come after its end are dropped.
  std::weak_ptr<ValueReader> reader;
  std::size_t key = 0;  ///< Number of the call among those of the reader.
};

/// Owner of calls, which can withdraw them: the system. Outlives every call that is not done.
class CallOwner {
 public:
  /// Removes a call that is about to end as cancelled, and asks its target to stop it.
  virtual void withdraw(const CallState& call) = 0;
  /// Sends a call elsewhere whose process is lost, for the reason `why`. Returns false if the call
  /// must fail.
  virtual bool resend(const std::shared_ptr<CallState>& call, const Error& why) = 0;
  /// Tells the generator of a call what its reader has taken so far.
  virtual void pull(const CallState& call, std::uint64_t values, std::uint64_t bytes) = 0;
  /// Returns the object to which decoded results belong.
  virtual DecodeContext* decode_context() = 0;

 protected:
  ~CallOwner() = default;
};

/// Call that awaits its reply: the bytes of the result, or an error.
class CallState final : public Pending {
 public:
  CallState(CallOwner& caller, std::shared_ptr<const ActorAddress> callee, const char* method_name,
            TimePoint call_deadline)
      : owner(caller),
        decode_context(caller.decode_context()),
        target(std::move(callee)),
        method(method_name),
        deadline(call_deadline) {}

  CallOwner& owner;
  DecodeContext* const decode_context;  ///< Object to which handles in the result belong.
  // shared by all calls of the same reference, as addresses hold strings
  const std::shared_ptr<const ActorAddress> target;
  const char* const method;
  const TimePoint deadline;
  std::uint64_t id = 0;        ///< Set once, before the call is shared.
  std::uint64_t sequence = 0;  ///< Position among the calls of its process. Set like `id`.
  /// Actor of this process whose handler waits; 0: a thread that is no actor's. Set like `id`.
  ActorId calling_actor{};
  TimePoint began{};  ///< Start of the call. Set like `id`.
  /// True once the call has left this process. Without a reply it is then unknown whether it ran.
  std::atomic<bool> sent{false};
  std::optional<ValueSink> sink;  ///< Null for calls that have one result. Set like `id`.
  /// True once a value has come. The call is then never repeated.
  std::atomic<bool> yielded{false};

  bool complete(std::vector<std::byte> reply);
  /// Completes the first of up to 2^level calls with the combined result of all; the other ones are
  /// covered by it and have no result of their own. See CallReduction.
  bool complete_combined(std::vector<std::byte> reply, std::size_t level);
  bool complete_covered();
  /// Fails without a reply. The error tells progress() unless with_call_outcome() made it.
  bool fail(Error error);
  /// Fails with the error of a reply, which tells `progress`.
  bool fail(Error error, CallProgress progress);
  void cancel() override;
  /// Returns kNotSent, kMayHaveStarted or kStarted.
  CallProgress progress() const override;

  /// Valid once done.
  const std::optional<Error>& error() const { return error_; }
  /// Returns the level of the result of complete_combined(), else 0.
  std::size_t level() const { return level_; }
  bool is_covered() const { return covered_; }
  /// Returns the text of the error without the words of with_call_outcome(). Valid once done with
  /// an error.
  std::string reason() const;
  const std::vector<std::byte>& reply() const { return reply_; }
  /// Moves the result or the error out. Once, after done.
  Outcome<std::vector<std::byte>> take_result();

 private:
  std::vector<std::byte> reply_;
  std::optional<Error> error_;
  std::uint8_t level_ = 0;
  bool covered_ = false;
};

/// Returns `error` with the progress of this call, in words too at the end of its text.
Error with_call_outcome(const Error& error, const CallState& call);

/// Returns kNotSent if no call was sent; else kMayHaveStarted.
CallProgress progress_of(const std::vector<std::shared_ptr<CallState>>& calls);

/// Group of calls that completes as one: when all are done, or, with kFailFast, at the first error,
/// which cancels the others.
class CallGroup final : public Pending {
 public:
  enum class OnError { kFailFast, kCollect };
  static std::shared_ptr<CallGroup> make(std::vector<std::shared_ptr<CallState>> parts,
                                         OnError on_error);

  void cancel() override;
  CallProgress progress() const override { return progress_of(parts_); }
  const std::vector<std::shared_ptr<CallState>>& parts() const { return parts_; }
  /// First error with kFailFast, or the cancellation of the group. Valid once done.
  const std::optional<Error>& error() const { return error_; }

 private:
  CallGroup(std::vector<std::shared_ptr<CallState>> parts, OnError on_error)
      : parts_(std::move(parts)), on_error_(on_error), left_(parts_.size()) {}
  void part_done(const CallState& part);

  const std::vector<std::shared_ptr<CallState>> parts_;
  const OnError on_error_;
  std::atomic<std::size_t> left_;
  std::optional<Error> error_;
};

}  // namespace weft::actors
