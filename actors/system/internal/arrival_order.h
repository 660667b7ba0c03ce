#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/mailbox/mailbox.h"
#include "actors/message/ids.h"

namespace weft::actors {

/// Puts the numbered calls of other processes in order: they come over several connections,
/// directly and over relays, and may overtake each other. See CallOrder. Loop's thread only.
///
///   arrived: 1 2 . 4 5       1 and 2 are with the actor; 4 and 5 are held until 3 arrives
///
class ArrivalOrder final {
 public:
  /// Calls that are held for one actor and one of its callers, at most.
  static constexpr std::size_t kMaxHeld = 1024;
  /// Numbers that have come for one actor from one of its callers before an earlier one, at most:
  /// those of calls that are held, and those whose calls do not start. One more ends the stream.
  static constexpr std::size_t kMaxEarly = 4 * kMaxHeld;
  /// Callers whose numbers are remembered, at most. The one that was quiet longest is dropped, and
  /// its next call is stale. Calls that are on their way then come back, and are sent again in no
  /// certain order: later ones may overtake them.
  static constexpr std::size_t kMaxOrigins = 65'536;
  /// Dropped callers whose last streams are remembered, at most.
  static constexpr std::size_t kMaxEvicted = 65'536;

  enum class Fate : std::uint8_t {
    kTaken,  ///< The call is held, or among the calls to start.
    kSeen,   ///< The call of this number came before.
    kStale,  ///< Its stream is over: the caller must begin another one, and send the call again.
  };
  struct Arrivals {
    std::vector<Envelope> ready;    ///< To start now, in this order.
    std::vector<Envelope> dropped;  ///< Not to start any more.
  };
  /// Adds a call of the process `origin`. Throws Error(kResourceExhausted) if too many are held
  /// already; the call's number then counts as come.
  Fate add(ProcessId origin, Envelope envelope, Arrivals& arrivals);
  /// Removes and returns a held call, whose number then counts as come.
  std::optional<Envelope> cancel(ProcessId origin, std::uint64_t call_id);
  /// Ends the streams of a process whose connection is lost: those up to `last_direct`, of which
  /// calls came over it, and those of held calls, for which it may have had the missing ones.
  void drop(ProcessId origin, std::uint64_t last_direct, Arrivals& arrivals);
  /// Forgets a process that has ended.
  void forget(ProcessId origin, Arrivals& arrivals);
  /// Returns true if purge() should be called: twice as many actors are known as after the last
  /// purge.
  bool needs_purge() const { return num_lanes_ >= purge_at_; }
  /// Forgets the numbers for actors of which `lives` returns false. Later calls of such an actor
  /// would be held, so they must be refused.
  void purge(const std::function<bool(ActorId)>& lives, Arrivals& arrivals);

 private:
  /// Ordinary or urgent calls of one process to one actor.
  struct Lane {
    std::uint64_t stream = 0;
    std::uint64_t next = 1;
    std::size_t num_held = 0;
    std::map<std::uint64_t, std::optional<Envelope>> held;  ///< By number; nullopt: skipped.
  };
  struct Origin {
    std::uint64_t last_used = 0;
    std::uint64_t last_ended = 0;                    ///< Streams up to this one are over.
    std::map<std::pair<ActorId, bool>, Lane> lanes;  ///< Key: actor, urgent.
  };
  static constexpr std::size_t kMinPurge = 1024;
  Origin& origin_of(ProcessId process);
  void erase(std::unordered_map<ProcessId, Origin>::iterator origin);
  static void drop_held(Lane& lane, Arrivals& arrivals);
  /// Drops the caller that was quiet longest, except `spared`, and remembers its last stream.
  void evict(ProcessId spared);

  std::unordered_map<ProcessId, Origin> origins_;
  std::unordered_map<ProcessId, std::uint64_t> evicted_;  // their last streams
  std::uint64_t uses_ = 0;
  std::size_t num_lanes_ = 0;  // of all origins
  std::size_t purge_at_ = kMinPurge;
};

}  // namespace weft::actors
