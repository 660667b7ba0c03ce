#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/head/head.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Time limit of connecting. A head or an agent that listens answers much sooner.
inline constexpr auto kConnectWithin = std::chrono::seconds(10);
/// Interval at which the head is asked which hosts have joined.
inline constexpr auto kAskHeadEvery = std::chrono::milliseconds(5);

/// Connection of a process to its cluster's head, which may be away for a while. Searches for a
/// head at the same address until it is back, and then registers this process again.
///
/// Made after the System it uses and destroyed before it. Any thread, but connecting blocks.
class HeadLink final {
 public:
  struct LinkCallbacks {
    /// Registers this process with a head that has just been reached, at first and after each
    /// absence. Blocks. kIncompatible, kAlreadyExists, kInvalidArgument and kCancelled are final;
    /// other errors lead to a retry.
    std::function<JoinReply(const ProcessRef& head)> greet;
    /// Receives e.g. "disconnected: connection lost"; on any thread, must not block.
    std::function<void(const std::string& how)> on_away = {};
    std::function<void(const JoinReply&, Nanoseconds away)> on_back = {};
    /// Decides whether to give up. Asked every second once the head has been away for longer than
    /// its grace; empty: never.
    std::function<bool()> gives_up = {};
    /// Called once when the search ends for good: "has not come back within 60 s", or a refusal.
    std::function<void(const Error&)> on_lost = {};
  };

  HeadLink(System& system, const Address& address, LinkCallbacks events);
  /// Waits for pending work: 4 seconds at most, if a head is there that does not answer.
  ~HeadLink();
  HeadLink(const HeadLink&) = delete;
  HeadLink& operator=(const HeadLink&) = delete;

  /// Reaches the head and registers, once; report_peer_loss() must work from now on. Throws the
  /// errors of System::connect() and `greet`. `returns_within`: time to wait for a head that is
  /// away or does not respond, if there has been one.
  JoinReply join(Nanoseconds returns_within = Nanoseconds::zero());
  /// Returns the head as last known.
  ActorRef<Head> head() const;
  ProcessRef process() const;
  const Address& address() const { return address_; }
  /// Returns the number of losses. Requests from before a loss may have lost their answers.
  std::uint64_t losses() const;
  /// Head that is there, and its number of losses at that time.
  struct Reached {
    ActorRef<Head> head;
    std::uint64_t losses = 0;
  };
  /// Returns the head, after waiting up to `within` for it. Throws Error(kUnavailable) if it is
  /// still away, or the error that is final.
  Reached reach(Nanoseconds within) const;
  /// Limits of a request that is repeated.
  struct Patience {
    Nanoseconds within;  ///< Time limit of the whole request.
    /// Time limit of each absence of the head.
    Nanoseconds head_returns_within = Nanoseconds::max();
    /// Asked every 50 ms while the head is away. False ends the request with Error(kCancelled).
    /// Empty: the wait goes on.
    std::function<bool()> goes_on = {};
  };
  /// Returns the result of `call`: R(const ActorRef<Head>&, std::uint64_t losses). Calls again if
  /// the answer was lost with the head, or the error may pass: a head returns, and devices become
  /// free. Announces a long wait. Throws the last error at the end of `within`.
  template <typename R, typename Call>
  R ask(Nanoseconds within, const Call& call) {
    return ask<R>(Patience{within}, call);
  }
  template <typename R, typename Call>
  R ask(const Patience& patience, const Call& call) {
    std::optional<R> result;
    retry(patience,
          [&](const Reached& reached) { result.emplace(call(reached.head, reached.losses)); });
    return std::move(*result);
  }
  /// Sends a one-way call, which is lost while the head is away.
  template <auto kMethod, typename Message>
  void tell(Message&& message) const {
    try {
      head().template tell<kMethod>(std::forward<Message>(message));
    } catch (const Error&) {
      // The head has ended for good, which is reported elsewhere.
    }
  }
  /// Takes lost and silent peers from the system's callbacks, before any other handling. Returns
  /// false if the peer is not the head.
  bool report_peer_loss(const ProcessRef& peer, const std::string& how);
  /// Ends the search for a head.
  void give_up(const Error& why);

 private:
  void search();
  /// Waits 50 to 100 ms, so that not all retry at once; less if this object ends.
  void wait_a_while();
  std::optional<ProcessRef> dial();
  /// Makes one attempt. Returns false if it must be repeated.
  bool find();
  void lose(const Error& why);
  /// Waits for the head until `give_up`, as reach() does, and asks `goes_on` meanwhile.
  Reached reach_patiently(TimePoint give_up, const std::function<bool()>& goes_on) const;
  /// Makes a call for ask(). `Reached::head` has the time limit that is left.
  void retry(const Patience& patience, const std::function<void(const Reached&)>& call);

  System& system_;
  const Address address_;
  const LinkCallbacks events_;
  const SteadyClock clock_;
  mutable Mutex mutex_;
  mutable Condition changed_;
  ProcessRef process_;                   // guarded by mutex_
  JoinReply joined_;                     // guarded by mutex_
  std::optional<TimePoint> away_since_;  // guarded by mutex_
  std::uint64_t losses_ = 0;             // guarded by mutex_: of all heads so far
  std::optional<Error> lost_;            // guarded by mutex_
  bool stopping_ = false;                // guarded by mutex_
  std::string last_problem_;             // guarded by mutex_: of the search
  Thread thread_;                        // runs search()
};

}  // namespace weft::actors
