#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/call/pending.h"
#include "actors/message/message.h"
#include "actors/system/internal/relocations.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Calls of a system that wait for replies, by their ids in messages. Any thread.
class PendingCalls final {
 public:
  /// Assigns the call's id. Returns true if its deadline is the earliest, so that the timer must be
  /// set.
  bool add(const std::shared_ptr<CallState>& call);
  /// Keeps the message of a call that can be sent again. `repeatable`: even if it may have run.
  void keep(const CallState& call, const Call& message, bool repeatable);
  /// Like keep(), for a call that travels a tree now. Its message has no arguments: they are
  /// shared.
  void keep_in_tree(const CallState& call, const Call& message,
                    std::shared_ptr<const std::vector<std::byte>> arguments,
                    std::shared_ptr<const ActorAddress> destination, bool repeatable);
  /// Returns the address to which a call was sent last; null if the call is not there.
  std::shared_ptr<const ActorAddress> destination(std::uint64_t id);
  /// Takes a waiting call to its destination: returns the message to send. nullopt if the call does
  /// not wait: it has ended, or was sent meanwhile.
  std::optional<Call> message_to(std::uint64_t id, const ActorAddress& destination);
  enum class Resend : std::uint8_t { kRefused, kWaits, kWaitsAlready };
  /// Lets a call that was lost with its process wait for another one, if it may be sent again.
  Resend wait_to_resend(const CallState& call);
  /// Returns a call; null if it is not there.
  std::shared_ptr<CallState> find_call(std::uint64_t id);
  /// Removes and returns a call; null if it is not there.
  std::shared_ptr<CallState> take(std::uint64_t id);
  /// Call that was removed, and the address to which it was sent last.
  struct Taken {
    std::shared_ptr<CallState> call;
    std::shared_ptr<const ActorAddress> destination;
  };
  /// Returns a call that can be sent again; null if it is not there, or is no such call.
  std::shared_ptr<CallState> kept_call(std::uint64_t id);
  std::vector<Taken> take_all_of(ProcessId process);
  std::vector<Taken> take_all_of(const std::set<ActorKey>& actors);
  /// Returns the calls that have left for a process, in the order in which they were made.
  std::vector<std::shared_ptr<CallState>> sent_to(ProcessId process);
  std::vector<std::shared_ptr<CallState>> sent_to(const std::set<ActorKey>& actors);
  std::vector<Taken> take_all();
  /// Returns the calls that still wait.
  std::vector<std::shared_ptr<CallState>> waiting();
  /// Returns the number of calls that wait for an actor. Looks at all slots: costs each call
  /// nothing, and some nanoseconds per call that waits.
  std::size_t count(const ActorAddress& target) const;
  /// Removes and returns the calls whose deadline has passed. Sets `next` to the next deadline.
  std::vector<Taken> take_expired(TimePoint now, TimePoint& next);

 private:
  /// Times that a call is sent at most, counting the first; a call that was never sent has no
  /// limit but its deadline.
  static constexpr int kMaxAttempts = 5;
  /// Message of a call that can be sent again.
  struct KeptMessage {
    Call message;
    std::shared_ptr<const ActorAddress> destination;
    std::shared_ptr<const std::vector<std::byte>> arguments = nullptr;  ///< Null: in `message`.
    bool waits = true;  ///< The message is to be sent.
    bool repeatable = false;
    int attempts = 1;
  };
  struct CallSlot {
    std::shared_ptr<CallState> call;
    std::uint32_t generation = 1;
    std::uint32_t target_hash = 0;      ///< For count(), so that it reads few calls.
    std::unique_ptr<KeptMessage> kept;  ///< Null for most calls, which go to their targets alone.

    const std::shared_ptr<const ActorAddress>& destination() const {
      return kept ? kept->destination : call->target;
    }
  };
  /// Returns the slot of a call; null if the call is not there. The lock is held.
  CallSlot* find(std::uint64_t id);
  /// Empties a slot and returns its call, clear() with its destination. The lock is held.
  std::shared_ptr<CallState> release(CallSlot& slot);
  Taken clear(CallSlot& slot);
  template <typename Which>
  std::vector<Taken> take_if(Which which);
  template <typename Which>
  std::vector<std::shared_ptr<CallState>> sent_if(Which which);

  mutable Mutex mutex_;  // guards the members below
  std::vector<CallSlot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t purge_at_ = 1024;
  std::uint64_t last_sequence_ = 0;
  TimePoint earliest_ = TimePoint::max();
};

}  // namespace weft::actors
