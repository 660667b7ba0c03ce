#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/call/call_frame.h"
#include "actors/mailbox/mailbox.h"
#include "actors/system/context.h"
#include "actors/system/provider.h"
#include "core/base/thread.h"
#include "core/log/log.h"

namespace weft::actors {

/// Host of one actor: its thread, its mailbox, its object, and its running calls.
///
///   construct -> [ take the next item: wake-up | urgent call | ordinary call ] -> stop -> destroy
///
/// One ordinary handler runs at a time. While it is suspended at a co_await, only wake-ups and
/// urgent calls are taken. Shared by the system and by incoming calls. Any thread, unless a
/// member's comment says otherwise.
class ActorHost final : public std::enable_shared_from_this<ActorHost> {
 public:
  struct Options {
    ActorAddress self;
    MeshPosition place;
    Provider provider;
    ProcessId owner;
    MailboxLimits limits;
    RestartInfo restart;
    /// Runs a function later, on the I/O thread.
    Wakeup::Schedule schedule;
    Log log;
  };
  ActorHost(System& system, Options options);
  ~ActorHost();

  /// Starts the thread and constructs the actor there. `constructed` and `ended` run on the actor's
  /// thread, once each, `ended` last. An actor whose constructor throws ends at once.
  void start(std::vector<std::byte> arguments,
             std::function<void(Outcome<std::vector<std::byte>>)> constructed,
             std::function<void()> ended);

  const ActorAddress& self() const { return options_.self; }
  ProcessId owner() const;
  /// Changes the owner and returns the previous one.
  ProcessId change_owner(ProcessId owner);
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  /// Cancels the call if it runs, or removes it if it waits.
  void cancel(const ReturnRoute* route, std::uint64_t call_id);
  /// Cancels all running calls of a process.
  void cancel_calls_of(ProcessId process);
  /// Rejects new calls, cancels running ones, which get `kStopGrace` to end, and destroys the
  /// actor.
  void stop();
  /// Runs `then` once the actor has ended; at once if it has already.
  void when_ended(std::function<void()> then);
  bool ended() const;
  /// Blocks until the actor has ended, at most `within`. Returns true if it has ended.
  bool wait_ended(Nanoseconds within) const;
  /// See Context::on_report().
  void on_report(std::function<std::vector<std::byte>()> report);
  std::optional<std::vector<std::byte>> report() const;
  /// See Context::on_activity().
  void on_activity(std::function<ActorActivity()> activity);
  /// Returns the actor's state and running calls. Any thread.
  ActorSurvey survey(TimePoint now) const;
  /// Joins the thread, after the actor's end. Not from the actor's thread.
  void join();

  static constexpr auto kStopGrace = std::chrono::seconds(10);

  const Options& options() const { return options_; }

  // Used by Context, on the actor's thread.
  const CallFrame* current() const { return current_; }
  std::stop_token stop_token() const {
    return current_ ? current_->stop_token() : stop_source_.get_token();
  }

 private:
  class Frame;
  void run(std::vector<std::byte> arguments,
           const std::function<void(Outcome<std::vector<std::byte>>)>& constructed);
  void serve();
  void begin(Envelope envelope);
  void resume_handler(const Resumption& resumption);
  /// Keeps a suspended frame, and releases a finished one.
  void keep_or_release(const std::shared_ptr<Frame>& frame);
  void refuse_waiting();
  /// Adds this actor's name to an error that names none.
  Error with_origin(Error error) const;
  std::optional<Error> find_problem(const Envelope& envelope) const;

  const Options options_;
  Context context_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with wake-ups, which may come after the end
  Thread thread_;
  std::stop_source stop_source_;

  // Used on the actor's thread.
  ActorObject object_{nullptr, [](void*) {}};
  CallFrame* current_ = nullptr;
  std::shared_ptr<Frame> active_;                // suspended ordinary call
  std::vector<std::shared_ptr<Frame>> urgents_;  // suspended urgent calls
  std::vector<CreditReport> reports_;

  mutable Mutex mutex_;  // guards the members below
  ProcessId owner_;
  bool stopping_ = false;
  bool ended_ = false;
  mutable Condition changed_;  // signals ended_
  // shared with cancel() while it cancels
  std::vector<std::shared_ptr<Frame>> running_;
  std::vector<std::function<void()>> when_ended_;
  std::function<std::vector<std::byte>()> report_;
  std::function<ActorActivity()> activity_;
};

}  // namespace weft::actors
