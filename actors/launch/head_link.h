#pragma once

#include <functional>
#include <optional>
#include <string>

#include "actors/head/head.h"
#include "actors/net/address.h"
#include "actors/system/system.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// What a process of a cluster knows of its head, which may be gone for a while: it looks for one
/// at the same address until it is there again, and introduces this process anew.
///
/// Made after the System it uses and destroyed before it. Any thread, but connecting waits.
class HeadLink final {
 public:
  struct Events {
    /// Introduces this process to a head that has just been reached, at first and whenever it was
    /// away. Waits. kIncompatible, kAlreadyExists, kInvalidArgument and kCancelled are final; on
    /// other errors it is tried again.
    std::function<Joined(const ProcessRef& head)> greet;
    /// "is gone: connection lost"; on any thread, must not wait.
    std::function<void(const std::string& how)> on_away = {};
    std::function<void(const Joined&, Nanoseconds away)> on_back = {};
    /// The head has been away for longer than its grace: is that the end? Asked every second then;
    /// empty: it is not.
    std::function<bool()> gives_up = {};
    /// Once: nothing more will come of it. "has not come back within 60 s", or why it refuses.
    std::function<void(const Error&)> on_lost = {};
  };

  HeadLink(System& system, const Address& address, Events events);
  /// Waits for what is under way: 4 seconds at most, when a head is there that does not answer.
  ~HeadLink();
  HeadLink(const HeadLink&) = delete;
  HeadLink& operator=(const HeadLink&) = delete;

  /// Reaches the head, which peer_gone() must be able to tell of from here on. Throws what
  /// System::connect() and `greet` throw. Once. `returns_within`: where there has been a head, one
  /// that is away or hangs is waited for so long.
  Joined join(Nanoseconds returns_within = Nanoseconds::zero());
  /// The head as last known.
  ActorRef<Head> head() const;
  ProcessRef process() const;
  const Address& address() const { return address_; }
  /// How often it was lost: what was asked for since may have had no answer for that.
  std::uint64_t losses() const;
  /// The head when it is there, and how often it had been lost then. Throws Error(kUnavailable)
  /// when it is not in time, and why it never will be.
  struct Reached {
    ActorRef<Head> head;
    std::uint64_t losses = 0;
  };
  Reached reach(Nanoseconds within) const;
  /// From the system's callbacks on lost and silent peers, which see all of them first. False: it
  /// was not the head.
  bool peer_gone(const ProcessRef& peer, const std::string& how);
  /// Nobody looks for it any more.
  void give_up(const Error& why);

 private:
  void search();
  /// 50 to 100 ms, so that not all come at once; less where this ends.
  void wait_a_while();
  std::optional<ProcessRef> dial();
  /// One attempt; false: again later.
  bool find();
  void lose(const Error& why);

  System& system_;
  const Address address_;
  const Events events_;
  const SteadyClock clock_;
  mutable Mutex mutex_;
  mutable Condition changed_;
  ProcessRef process_;                   // guarded by mutex_
  Joined joined_;                        // guarded by mutex_
  std::optional<TimePoint> away_since_;  // guarded by mutex_
  std::uint64_t losses_ = 0;             // guarded by mutex_: of process_, or of the next one
  std::optional<Error> lost_;            // guarded by mutex_
  bool stopping_ = false;                // guarded by mutex_
  std::string last_problem_;             // guarded by mutex_: of looking for it
  Thread thread_;                        // looks for it
};

}  // namespace weft::actors
