#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "actors/call/pending.h"
#include "actors/link/route.h"
#include "actors/net/event_loop.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/link_dialer.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/peer_links.h"
#include "actors/system/internal/pending_calls.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/relocations.h"
#include "actors/system/internal/system_methods.h"
#include "actors/system/system.h"

namespace weft::actors {

/// Calls of a process that travel trees, as OutgoingCalls knows them. Any thread.
class TreeCarrier {
 public:
  /// Asks the actor of a call that has ended to stop. Returns false if the call is in no tree.
  virtual bool cancel(std::uint64_t id) = 0;
  /// Ignores what comes of a call, whose process is lost, from now on.
  virtual void forget(std::uint64_t id) = 0;

 protected:
  ~TreeCarrier() = default;
};

/// Calls that this process makes: sends them, and ends each with its reply, its deadline, or an
/// error. Any thread, unless a member's comment says otherwise.
class OutgoingCalls final : public CallOwner {
 public:
  /// Handles in results belong to `system`. `local`: route to this process. `actors`: actors of
  /// this process.
  OutgoingCalls(System& system, const SystemOptions& options, EventLoop& loop, LoopTimers& timers,
                const ProcessIdentity& identity, PeerLinks& links, LinkDialer& dialer,
                HostedActors& actors, Relocations& relocations, std::shared_ptr<Route> local)
      : system_(system),
        options_(options),
        loop_(loop),
        timers_(timers),
        identity_(identity),
        links_(links),
        dialer_(dialer),
        actors_(actors),
        relocations_(relocations),
        local_(std::move(local)) {}

  /// Sets the object that knows the calls in trees. Before the first call.
  void set_trees(TreeCarrier& trees) { trees_ = &trees; }

  /// Throws Error(kInvalidArgument) if arguments of this size are too large for a call.
  static void check_size(std::size_t bytes, const ActorAddress& target, const char* method);
  /// Sends a call. If the actor is restarted after deaths, a call that waits when its process dies
  /// goes to the next incarnation, and a `repeatable` one also if it may have run. `sink` takes the
  /// values of a generator. Throws Error(kInvalidArgument) if its arguments are too large.
  std::shared_ptr<CallState> call(const std::shared_ptr<const ActorAddress>& target,
                                  const char* method, Call call, Nanoseconds within,
                                  bool repeatable = false, std::optional<ValueSink> sink = {});
  /// Sends a one-way call. Returns false if it cannot be sent at all.
  bool tell(const std::shared_ptr<const ActorAddress>& target, Call call, Nanoseconds within);
  /// Makes a call that send() or a tree sends.
  std::shared_ptr<CallState> make(const std::shared_ptr<const ActorAddress>& target,
                                  const char* method, Nanoseconds within,
                                  std::optional<ValueSink> sink = {});
  /// Sends a call of make(). `repeatable`: see call().
  void send(const std::shared_ptr<CallState>& state, Call call, bool repeatable);
  /// Keeps the message of a call of make() that a tree sends to `destination`.
  void keep_in_tree(const CallState& call, const Call& message,
                    std::shared_ptr<const std::vector<std::byte>> arguments,
                    std::shared_ptr<const ActorAddress> destination, bool repeatable) {
    pending_.keep_in_tree(call, message, std::move(arguments), std::move(destination), repeatable);
  }
  /// Returns the route to a process. Throws the reason of its death, or Error(kUnavailable).
  std::shared_ptr<Route> route_to(const ProcessRef& process);
  /// Asks a process to relay calls. The answer comes once, at the latest when its link is lost.
  /// `carried`: the calls, if they are of this process; else null.
  std::shared_ptr<CallState> call_relay(const ProcessRef& process, std::vector<std::byte> request,
                                        std::shared_ptr<CarriedCalls> carried);
  /// Returns the bytes for a process that wait to be sent.
  std::size_t unsent_to(ProcessId process) const;
  /// Sends a message to actor 0 of a process to which there is a link.
  void tell_system(ProcessId process, SystemMethod method, std::vector<std::byte> arguments);

  /// Logs the error of a one-way call, once it has one.
  static void log_failure(const Log& log, const std::shared_ptr<CallState>& call);

  /// Ends a call with its reply.
  void finish(Reply reply);
  /// Passes values of a generator to the reader of its call.
  void take_values(Values values);
  void pull(const CallState& call, std::uint64_t values, std::uint64_t bytes) override;
  /// Ends calls with their combined result, which the first one gets.
  void finish_combined(const std::vector<std::uint64_t>& ids, std::vector<std::byte> value,
                       std::size_t level);
  /// Removes a call, and asks its target to stop it.
  void withdraw(const CallState& call) override;
  bool resend(const std::shared_ptr<CallState>& call, const Error& why) override;
  DecodeContext* decode_context() override { return &system_; }

  /// Fails the calls that wait for a process.
  void fail_all_of(ProcessId process, const Error& reason);
  /// Like fail_all_of(), and asks the process to stop the calls.
  void cancel_all_of(ProcessId process, const Error& reason);
  /// Like fail_all_of(), for the calls of these actors. Any thread.
  void fail_all_of(const std::set<ActorKey>& actors, const Error& reason);
  /// Like cancel_all_of(), for the calls of these actors.
  void cancel_all_of(const std::set<ActorKey>& actors, const Error& reason);
  void fail_all(const Error& reason);
  /// Lets calls fail with their processes from now on: this process ends.
  void stop_resending() { resends_ = false; }
  /// Returns the calls that still wait.
  std::vector<std::shared_ptr<CallState>> waiting() { return pending_.waiting(); }
  /// Returns the number of calls that wait for an actor.
  std::size_t unanswered(const ActorAddress& target) const { return pending_.count(target); }
  /// Ends no more calls at their deadlines. Loop's thread.
  void stop_deadlines();

 private:
  /// Sends a call elsewhere that an actor has refused because it is restarted. Returns false if the
  /// call must fail.
  bool resend_refused(const Reply& reply);
  /// Notes that an actor of another owner has ended, if a reply says so.
  void note_ended(const Reply& reply);
  TimePoint deadline_after(Nanoseconds within, TimePoint now) const;
  /// Sends a call whose message is kept to the present address of its actor, once that is known.
  void send_to_present_address(const std::shared_ptr<CallState>& call);
  void send_kept(const std::shared_ptr<CallState>& call, const ActorAddress& address,
                 bool has_waited);
  /// Asks the process at `target` to stop a call that is about to end here with an error. First, so
  /// that whoever sees the error finds the call withdrawn.
  void withdraw_from(const ActorAddress& target, const CallState& call);
  /// Asks the owner of an actor whose process was lost for the present address.
  void locate(const ActorAddress& lost);
  /// Asks the directory of this process, as the owner does not answer, for the reason `why`.
  void locate_by_directory(const ActorAddress& lost, const Error& why);
  /// Ends the restart of an actor with an answer to locate().
  void located(const ActorAddress& lost, const ActorAddress& now);
  /// Ends calls at their deadlines from the time `at` on, or from an earlier one.
  void arm_deadlines(TimePoint at);
  void expire();
  /// Fails a call whose deadline has passed, unless it has ended.
  static void fail_late(CallState& call);

  System& system_;
  const SystemOptions& options_;
  EventLoop& loop_;
  LoopTimers& timers_;
  const ProcessIdentity& identity_;
  PeerLinks& links_;
  LinkDialer& dialer_;
  HostedActors& actors_;
  Relocations& relocations_;
  std::atomic<bool> resends_{true};
  const std::shared_ptr<Route> local_;  // shared with pending calls
  TreeCarrier* trees_ = nullptr;

  PendingCalls pending_;
  // Loop's thread only.
  std::unique_ptr<Timer> deadline_timer_;  // made by the first deadline
  TimePoint deadline_armed_ = TimePoint::max();
  bool deadlines_stopped_ = false;
};

}  // namespace weft::actors
