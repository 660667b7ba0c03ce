#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/call/pending.h"
#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Time in which the owner of an actor learns of a death that a caller has seen.
inline constexpr Nanoseconds kDeathReportedWithin = std::chrono::seconds(2);

/// Incarnation of an actor: its process, and its id there.
struct ActorKey {
  ProcessId process;
  ActorId actor;

  static ActorKey of(const ActorAddress& address) { return {address.process.id, address.actor}; }
  friend auto operator<=>(const ActorKey&, const ActorKey&) = default;
};

/// New addresses of actors that were restarted. Calls of an actor whose restart is under way wait
/// here.
///
///   [at its address] -> begin() -> [restarting: calls wait] -> finish() -> [moved, or lost]
///
/// The process that restarts an actor watches it, confirms and finishes; others begin when a call
/// fails, and finish with what that process says. Any thread.
class Relocations final {
 public:
  /// Waiting call, or other question for an address.
  struct Waiting {
    /// Called with the present address, or with the reason why the actor will not be back.
    std::function<void(const Outcome<ActorAddress>& address)> then;
    /// Position among the calls of this process: earlier ones run first.
    std::uint64_t sequence = 0;
    /// Call that waits, if it is one; once it is over, nothing waits any more.
    std::weak_ptr<const Pending> call = {};
  };
  /// Calls that wait for one actor at most. One more fails, so that memory is bounded.
  static constexpr std::size_t kMaxWaiting = 4096;

  /// Returns the present address of an actor. If a restart is under way, queues `waiting` and
  /// returns nullopt. Throws the reason if the actor is lost, and Error(kResourceExhausted) if too
  /// many wait.
  std::optional<ActorAddress> current(const ActorAddress& address, Waiting waiting);
  /// Returns the present address, or the last one if a restart is under way or the actor is lost.
  ActorAddress last_known(const ActorAddress& address) const;
  /// Returns the present address; nullopt if a restart is under way or the actor is lost.
  std::optional<ActorAddress> settled(const ActorAddress& address) const;
  /// Begins a restart, as a call has failed. Returns false if it has begun, or has ended, before.
  bool begin(const ActorKey& actor);
  /// Begins a restart, as the process that restarts the actor says so. withdraw() then has no
  /// effect.
  void confirm(const ActorKey& actor);
  /// Confirms the restart of all watched actors of a process, which has died.
  void confirm_all_of(ProcessId process);
  /// Ends a restart: runs what waits. An error is final. Without effect unless a restart is under
  /// way.
  void finish(const ActorKey& actor, const Outcome<ActorAddress>& now);
  /// Ends a restart that was none: the actor is where it was.
  void finish_unmoved(const ActorAddress& actor);
  /// Like finish_unmoved(), unless the restart is confirmed.
  void withdraw(const ActorAddress& actor);
  /// Fails what waits now. Later calls begin anew.
  void abandon(const ActorKey& actor, const Error& why);

  /// Exits of actors that nobody watched yet, at most. The oldest are dropped.
  static constexpr std::size_t kMaxEarlyExits = 4096;

  /// Watches an actor that this process restarts. One that has ended itself before ends at once.
  void watch(const ActorKey& actor);
  /// Ends that: a restart that is under way fails with `why`.
  void unwatch(const ActorKey& actor, const Error& why);
  /// Notes that an actor ended itself: it is not restarted, and its calls fail with `why`. Its exit
  /// may be known before it is watched, which a spawn does once all actors are constructed.
  void end(const ActorKey& actor, const Error& why);
  /// Notes that an actor that another process restarts has ended: its calls fail with `why`.
  void lose(const ActorKey& actor, const Error& why);
  /// Returns whether an actor was lost, or ended itself.
  bool ended(const ActorKey& actor) const;
  bool watches(const ActorKey& actor) const;
  /// Returns whether a restart of this incarnation has begun, or has ended.
  bool moved(const ActorKey& actor) const;

 private:
  struct Restart {
    bool confirmed = false;
    std::optional<Outcome<ActorAddress>> end;  ///< Absent while the restart is under way.
    std::vector<Waiting> waiting;
  };
  /// Record that an ended restart leaves.
  enum class Trace : std::uint8_t {
    kKept,    ///< The present address, or the loss, for later calls.
    kErased,  ///< None: the actor is at its address.
    kErasedUnlessConfirmed
  };
  void run_waiting(const ActorKey& actor, const Outcome<ActorAddress>& now, Trace trace);
  /// Watches an actor, unless it has ended itself: then returns why. The lock is held.
  std::optional<Error> watch_or_end(const ActorKey& actor);

  mutable Mutex mutex_;                   // guards the members below
  std::map<ActorKey, Restart> restarts_;  // key: the former incarnation
  std::set<ActorKey> watched_;
  std::map<ActorKey, Error> early_exits_;  // of actors that nobody watches, or not yet
  std::deque<ActorKey> early_exit_order_;
};

}  // namespace weft::actors
