#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "actors/mailbox/mailbox.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"

namespace weft::actors {

/// The coroutine at the bottom of a handler that returns task<R>. Owned by its CallFrame.
struct RootTask {
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  Handle handle;
};

/// One call while it runs: who called, until when, whether it should stop, and where its reply
/// goes.
///
/// Owned by the actor's host. Actor's thread, except cancel(), which comes from the I/O thread
/// while the handler runs.
class CallFrame {
 public:
  CallFrame(std::shared_ptr<Mailbox> mailbox, Envelope envelope)
      : mailbox_(std::move(mailbox)), envelope_(std::move(envelope)) {}
  virtual ~CallFrame();
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  const Envelope& envelope() const { return envelope_; }
  std::span<const std::byte> arguments() const { return envelope_.call.arguments; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  /// Ends the call: the encoded result, or the error. Once.
  virtual void reply(Outcome<std::vector<std::byte>> result) = 0;
  bool replied() const { return replied_; }

  /// Starts the handler's coroutine; it runs until it first waits.
  void start(RootTask task);
  /// Goes on after a wait.
  void resume(std::coroutine_handle<> handle);
  /// True when a coroutine was started and has not ended.
  bool suspended() const;
  /// Destroys the coroutine, ended or abandoned. Actor's thread.
  void release();

  /// Asks the handler to stop: sets its stop token and ends what it waits for. Any thread.
  void cancel();
  bool cancelled() const;
  std::stop_token stop_token();

  /// Before a wait: `on_cancel` ends the wait if the call is cancelled meanwhile. False if it is
  /// cancelled already.
  bool arm(std::function<void()> on_cancel);

 protected:
  bool replied_ = false;

 private:
  void disarm();

  // shared with whatever will wake the handler, which may come after its end
  const std::shared_ptr<Mailbox> mailbox_;
  Envelope envelope_;
  RootTask root_;

  mutable Mutex mutex_;  // guards what follows
  bool cancelled_ = false;
  std::optional<std::stop_source> stop_;
  std::function<void()> on_cancel_;
};

struct RootTask::promise_type {
  CallFrame* frame = nullptr;
  RootTask get_return_object() { return {Handle::from_promise(*this)}; }
  std::suspend_always initial_suspend() noexcept { return {}; }
  std::suspend_always final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() { std::terminate(); }  // the body catches everything
};

/// True on a thread that runs handlers, which must not block. Set by the actor's host.
bool on_actor_thread();
void set_on_actor_thread(bool is_so = true);
/// The actor whose handlers this thread runs; 0 on other threads. Set by the actor's host.
ActorId current_actor();
void set_current_actor(ActorId actor);

}  // namespace weft::actors
