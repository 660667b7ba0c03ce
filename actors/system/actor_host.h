#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/call/call_frame.h"
#include "actors/mailbox/mailbox.h"
#include "actors/system/context.h"
#include "actors/system/internal/actor_threads.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/provider.h"
#include "core/base/thread.h"
#include "core/log/log.h"

namespace weft::actors {

/// Host of one actor: its mailbox, its object, its running calls, and its thread or its turns on
/// shared threads.
///
///   construct -> [ take the next item: wake-up | urgent call | ordinary call ] -> stop -> destroy
///
/// One ordinary handler runs at a time. While it is suspended at a co_await, only wake-ups and
/// urgent calls are taken, and concurrent calls if it is concurrent. A `blocking` handler counts as
/// suspended while it runs on its thread; timers and posted tasks wait for its end. An actor
/// without a thread of its own gets a turn of some items when its mailbox has work; it has one turn
/// at a time. "The actor's thread" is then that of the turn.
///
/// Shared by the system, by incoming calls and by the threads of turns. Any thread, unless a
/// member's comment says otherwise.
class ActorHost final : public ActorThreads::Work, public std::enable_shared_from_this<ActorHost> {
 public:
  struct Options {
    ActorAddress self;
    MeshPosition place;
    Provider provider;
    ProcessRef owner;
    MailboxLimits limits;
    RestartInfo restart;
    const Log& log;
    ActorThread thread;
    ActorThreads& threads;           ///< Threads of shared actors.
    ActorThreads& blocking_threads;  ///< Threads of `blocking` handlers.
    LoopTimers& timers;
  };
  ActorHost(System& system, Options options);
  ~ActorHost() override;

  /// Begins to run, and constructs the actor on its thread. `constructed` and `ended` run there,
  /// once each, `ended` last. An actor whose constructor throws ends at once.
  void start(std::vector<std::byte> arguments,
             std::function<void(Outcome<std::vector<std::byte>>)> constructed,
             std::function<void()> ended);

  const ActorAddress& self() const { return options_.self; }
  ProcessId owner() const { return owner_process().id; }
  ProcessRef owner_process() const;
  /// Changes the owner and returns the previous one.
  ProcessId change_owner(ProcessRef owner);
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  /// Cancels the call if it runs, or removes it if it waits.
  void cancel(const ReturnRoute* route, std::uint64_t call_id);
  /// Tells a running generator what its reader has taken.
  void grant_values(const ReturnRoute* route, const Pull& pull);
  /// Cancels the generators whose reader at `route` has gone.
  void cancel_generators_of(const ReturnRoute* route);
  /// Cancels all running calls of a process.
  void cancel_calls_of(ProcessId process);
  /// Rejects new calls, cancels running ones, which get `kStopGrace` to end, and destroys the
  /// actor.
  void stop();
  /// Like stop(), for an actor that is constructed anew: calls that were not started are refused
  /// with kStaleEpoch, so that they go to the next incarnation. Cancelled calls fail with it.
  void stop_for_restart();
  /// Returns whether stop_for_restart() was called.
  bool is_replaced() const;
  /// Like stop(), but lets the handler that runs on this thread end. See Context::exit().
  void exit(const std::string& reason);
  /// Returns the reason with which the actor ended itself, if it did.
  std::optional<std::string> exit_reason() const;
  /// Runs `then` once the actor has ended; at once if it has already.
  void when_ended(std::function<void()> then);
  bool ended() const;
  /// Blocks until the actor has ended, at most `within`. Returns true if it has ended.
  bool wait_ended(Nanoseconds within) const;
  /// See Context::on_report().
  void on_report(std::function<std::vector<std::byte>()> report);
  std::optional<std::vector<std::byte>> report() const;
  /// Function that decides about a death in a child: encoded Incident -> encoded OnFailure.
  using Decider = std::function<std::vector<std::byte>(std::span<const std::byte> incident)>;
  /// Adds a decider and returns its id, which is not 0.
  std::uint64_t add_decider(Decider decide);
  void forget_decider(std::uint64_t id);
  /// Returns null if there is none.
  Decider decider(std::uint64_t id) const;
  /// See Context::on_activity().
  void on_activity(std::function<ActorActivity()> activity);
  /// Returns the actor's state and running calls. Any thread.
  ActorSurvey survey(TimePoint now) const;
  /// Joins the actor's own thread, if any, after the actor's end. Not from the actor's thread.
  void join();
  /// Runs a turn on a shared thread. Called by it.
  void run() override;

  static constexpr auto kStopGrace = std::chrono::seconds(10);
  /// Items of a turn on a shared thread, at most.
  static constexpr int kItemsPerTurn = 32;
  /// Concurrent calls that are suspended at once, at most.
  static constexpr std::size_t kMaxConcurrent = 1024;

  /// Returns true if the call's method is `concurrent`.
  bool runs_concurrently(const Call& call) const {
    const auto& methods = options_.provider.methods;
    return call.method < methods.size() && methods[call.method].concurrent;
  }

  const Options& options() const { return options_; }

  // Used by Context, on the actor's thread or on that of a `blocking` handler.
  const CallFrame* current() const { return current_call(); }
  std::stop_token stop_token() const {
    CallFrame* const call = current_call();
    return call ? call->stop_token() : stop_source_.get_token();
  }

 private:
  class Frame;
  class BlockingCall;
  /// Requests the end, if that is not done yet, and cancels the running calls but `spared`.
  /// `exit_reason`: absent if the actor does not end itself.
  void begin_stop(const CallFrame* spared, const std::optional<std::string>& exit_reason,
                  bool is_restart = false);
  CallFrame* current_call() const {
    CallFrame* const here = blocking_call();
    return here ? here : current_;
  }
  // Life of the actor, on its thread: construct(), take() until served(), end().
  void construct();
  /// Runs the handler of an item.
  void take(Mailbox::Item item);
  /// Returns the ordinary calls that may start now.
  Mailbox::Ordinary startable() const;
  /// Returns true if nothing is left to do before the end.
  bool served() const { return (abandoning_ && !blocking_) || (stopped_ && suspended_.empty()); }
  void end();
  void report_credit();
  void run_task(const Mailbox::Task& task);
  void begin(Envelope envelope);
  void resume_handler(const Resumption& resumption);
  const MethodEntry& method_of(const Frame& frame) const;
  void invoke(Frame& frame);
  /// Returns why a `blocking` call that has waited for a thread must not start.
  std::optional<Error> find_late_problem(const Frame& frame) const;
  // Note the state of a call.
  void suspended(const std::shared_ptr<Frame>& frame);
  void resumed(const std::shared_ptr<Frame>& frame);
  void finished(const std::shared_ptr<Frame>& frame);
  void refuse_waiting();
  /// Begins to end without the suspended calls, as the grace period is over.
  void abandon();
  /// Ends the suspended calls with an error.
  void abandon_suspended();
  /// Returns a running call; null if there is none.
  std::shared_ptr<Frame> find_running(const ReturnRoute* route, std::uint64_t call_id) const;
  /// Adds this actor's name to an error that names none.
  Error with_origin(Error error) const;
  std::optional<Error> find_problem(const Envelope& envelope) const;

  const Options options_;
  Context context_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with wake-ups, which may come after the end
  Thread thread_;                           // if the actor has one of its own
  std::stop_source stop_source_;

  // Used on the actor's thread.
  struct Construction {
    std::vector<std::byte> arguments;
    std::function<void(Outcome<std::vector<std::byte>>)> constructed;
  };
  std::unique_ptr<Construction> construction_;  // null once the actor was constructed
  bool stopped_ = false;                        // takes no more calls
  bool abandoning_ = false;                     // ends without its suspended calls
  ActorObject object_{nullptr, [](void*) {}};
  CallFrame* current_ = nullptr;
  // shared with cancel(), like running_
  std::vector<std::shared_ptr<Frame>> suspended_;
  std::size_t alone_ = 0;             // suspended ordinary calls that are not concurrent: 0 or 1
  std::size_t concurrent_ = 0;        // suspended concurrent calls
  std::size_t concurrent_bytes_ = 0;  // their arguments
  bool blocking_ = false;             // a `blocking` handler runs; its call is in suspended_
  std::vector<CreditReport> reports_;

  mutable Mutex mutex_;  // guards the members below
  ProcessRef owner_;
  bool stopping_ = false;
  std::optional<std::string> exit_reason_;
  bool replaced_ = false;  // stop_for_restart() was called before another stop
  bool ended_ = false;
  mutable Condition changed_;  // signals ended_
  // shared with cancel() while it cancels
  std::vector<std::shared_ptr<Frame>> running_;
  std::vector<std::function<void()>> when_ended_;
  std::function<std::vector<std::byte>()> report_;
  std::map<std::uint64_t, Decider> deciders_;  // by id
  std::uint64_t last_decider_ = 0;
  std::function<ActorActivity()> activity_;
};

/// Returns the error of calls of an actor that ended itself.
Error ended_error(const std::string& label, const std::string& reason);
/// Returns the error of calls that an actor did not start before its restart.
Error replaced_error(const std::string& label);

}  // namespace weft::actors
