#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/outcome.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Time in which the owner of an actor learns of a death that a caller has seen.
inline constexpr Nanoseconds kDeathReportedWithin = std::chrono::seconds(2);

/// One incarnation of an actor: the process and the id in it.
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
/// The process that restarts an actor watches it, begins and finishes; others begin when a call
/// fails, and finish with what that process says. Any thread.
class Relocations final {
 public:
  /// Called with the present address, or with the reason why the actor will not be back.
  using Then = std::function<void(const Outcome<ActorAddress>& address)>;
  /// Calls that wait for one actor at most. One more fails, so that memory is bounded.
  static constexpr std::size_t kMaxWaiting = 4096;

  /// Returns the present address of an actor. If a restart is under way, queues `then`, which runs
  /// after those that were queued before, and returns nullopt. Throws the reason if the actor is
  /// lost, and Error(kResourceExhausted) if too many wait.
  std::optional<ActorAddress> current(const ActorAddress& address, Then then);
  /// Begins a restart, as a call has failed. Returns false if it has begun, or has ended, before.
  bool begin(const ActorKey& actor);
  /// Begins a restart, as the process that restarts the actor says so. withdraw() then has no
  /// effect.
  void confirm(const ActorKey& actor);
  /// Ends a restart: runs what waits. An error is final. Without effect unless a restart is under
  /// way.
  void finish(const ActorKey& actor, const Outcome<ActorAddress>& now);
  /// Ends a restart that was none: the actor is where it was.
  void withdraw(const ActorAddress& actor);

  /// Watches an actor that this process restarts.
  void watch(const ActorKey& actor);
  /// Ends that: a restart that is under way fails with `why`.
  void unwatch(const ActorKey& actor, const Error& why);
  bool watches(const ActorKey& actor) const;
  /// Returns whether a restart of this incarnation has begun, or has ended.
  bool moved(const ActorKey& actor) const;

 private:
  struct Restart {
    bool confirmed = false;
    std::optional<Outcome<ActorAddress>> end;  ///< Absent while the restart is under way.
    std::vector<Then> waiting;
  };
  void run_waiting(const ActorKey& actor, const Outcome<ActorAddress>& now, bool keep);

  mutable Mutex mutex_;                   // guards the members below
  std::map<ActorKey, Restart> restarts_;  // by former incarnation
  std::set<ActorKey> watched_;
};

}  // namespace weft::actors
