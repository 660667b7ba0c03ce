#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "actors/call/value_sender.h"
#include "actors/mailbox/mailbox.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"
#include "core/codec/bytes.h"

namespace weft::actors {

/// Outermost coroutine of a handler that returns task<R> or generator<T>. Owned by its CallFrame.
struct RootTask {
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  Handle handle;
};

/// Running call: its caller, deadline, cancellation state and destination of the reply.
///
/// Owned by the actor's host. Used on the actor's thread, or on that of a `blocking` handler.
/// cancel() is the exception: the I/O thread calls it while the handler runs.
class CallFrame {
 public:
  /// `context`: object to which decoded arguments belong.
  CallFrame(std::shared_ptr<Mailbox> mailbox, Envelope envelope, DecodeContext* context)
      : mailbox_(std::move(mailbox)), envelope_(std::move(envelope)), context_(context) {}
  virtual ~CallFrame();
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  const Envelope& envelope() const { return envelope_; }
  std::span<const std::byte> arguments() const { return envelope_.call.arguments; }
  DecodeContext* decode_context() const { return context_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  /// Ends the call with the encoded result or an error. Called once.
  virtual void reply(Outcome<std::vector<std::byte>> result) = 0;
  bool replied() const { return replied_; }

  /// Starts the handler's coroutine, which runs until its first suspension.
  void start(RootTask task);
  /// Resumes the coroutine after a wait.
  void resume(std::coroutine_handle<> handle);
  /// Returns true if a coroutine was started and has not finished.
  bool suspended() const;
  /// Destroys the coroutine, finished or not. Actor's thread.
  void release();

  // Generators, on the actor's thread.
  /// Prepares the call for values. Throws Error(kInvalidArgument) if it has no reader.
  void begin_values();
  /// Sends an encoded value.
  void yield(std::vector<std::byte> value);
  /// Returns true if the generator may go on after a co_yield: its reader has room, and nothing
  /// else has to be done on the actor's thread.
  bool may_yield_on() const;
  /// Resumes the generator once it may go on, or if the call is cancelled: then the coroutine that
  /// awaits the generator runs in its place.
  void suspend_at_yield(std::coroutine_handle<> generator);

  /// Notes what the reader has taken of the values. Any thread.
  void grant(std::uint64_t consumed_values, std::uint64_t consumed_bytes);
  /// Returns true if the call is one of a generator. Any thread.
  bool has_values() const { return values() != nullptr; }
  /// Returns true if the call is one of a generator that waits for its reader. Any thread.
  bool waits_for_reader() const;

  /// Requests cancellation: sets the stop token and ends the handler's current wait. Any thread.
  void cancel();
  bool cancelled() const;
  std::stop_token stop_token();

  /// Registers `on_cancel`, which ends the coming wait if the call is cancelled. Returns false if
  /// the call is cancelled already.
  bool set_cancel_callback(std::function<void()> on_cancel);

  void clear_cancel_callback();

 protected:
  /// Sends the values that are queued. Call it before the reply.
  void send_values();
  bool replied_ = false;

 private:
  std::shared_ptr<ValueSender> values() const;

  // shared with pending wake-ups of the handler, which may fire after its end
  const std::shared_ptr<Mailbox> mailbox_;
  Envelope envelope_;
  DecodeContext* const context_;
  RootTask root_;
  bool at_yield_ = false;  // the coroutine is suspended at a co_yield

  mutable Mutex mutex_;  // guards the members below
  bool cancelled_ = false;
  std::optional<std::stop_source> stop_;
  std::function<void()> on_cancel_;
  // shared with sends that are due; null for handlers that are no generators
  std::shared_ptr<ValueSender> values_;
};

struct RootTask::promise_type {
  CallFrame* frame = nullptr;
  RootTask get_return_object() { return {Handle::from_promise(*this)}; }
  std::suspend_always initial_suspend() noexcept { return {}; }
  std::suspend_always final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() { std::terminate(); }  // run_handler() catches every exception
};

/// Returns true on threads that run handlers; these must not block. Set by the actor's host.
bool on_actor_thread();
void set_on_actor_thread(bool is_so = true);
/// Returns the actor whose handlers this thread runs; 0 on other threads. Set by the actor's host.
ActorId current_actor();
void set_current_actor(ActorId actor);
/// Returns the call whose `blocking` handler this thread runs; null on other threads. Set by the
/// actor's host.
CallFrame* blocking_call();
void set_blocking_call(CallFrame* call);

}  // namespace weft::actors
