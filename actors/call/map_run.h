#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/call/completion_queue.h"

namespace weft::actors {

/// Options of map().
struct MapOptions {
  /// Calls that wait for one actor at a time, at least 1. With 2, an actor has its next item when
  /// it ends one.
  std::size_t in_flight = 2;
};

/// Run of map(): makes one call per item, each to the actor that has the fewest unanswered calls of
/// this run, and queues the results. Keys: indexes of the items.
///
///   [waiting items] ──► actor with fewest calls ──► result ──► [queue] ──► reader
///         ▲                                      │
///         └── actor lost or full, may run again ◄┘
///
/// Calls are made on the thread that starts the run, on those that complete calls, and on the
/// reader's. None of them blocks: an item that an actor has no room for waits. Any thread.
class MapRun final : public CompletionQueue {
 public:
  struct Setup {
    std::vector<std::shared_ptr<const ActorAddress>> actors;
    MapOptions options;
    bool idempotent = false;
    /// Calls one of the actors.
    std::function<std::shared_ptr<CallState>(const std::shared_ptr<const ActorAddress>&,
                                             std::vector<std::byte>)>
        call;
  };
  /// `items`: encoded arguments. Throws Error(kInvalidArgument) if an option is out of range.
  static std::shared_ptr<MapRun> start(Setup setup, std::vector<std::vector<std::byte>> items);
  void cancel() override;

 private:
  /// Calls of one item at most, so that an item that kills its processes does not kill all. The
  /// system itself repeats calls of restarted actors; this run does not if they may have run.
  static constexpr int kMaxAttempts = 5;
  struct Item {
    std::vector<std::byte> arguments;
    int attempts = 0;  ///< Calls that may have run, or that a stopping actor refused.
    bool may_have_run = false;
    std::size_t actor = 0;
    std::shared_ptr<CallState> call;  ///< Null unless a call is under way.
  };
  struct Actor {
    std::size_t unanswered = 0;
    bool lost = false;
    bool full = false;  ///< Its last call did not fit; until the next result or take.
  };

  MapRun(Setup setup, std::vector<std::vector<std::byte>> items);
  /// Sends items, or ends them once no more may be sent, as far as the reader keeps up.
  ///
  /// One thread at a time. After a turn of in_flight items per actor, the next thread that
  /// completes a call or reads takes over, so that none makes the calls of all others.
  void pump();
  /// Returns true if this thread is the one in pump() now. The lock is held.
  bool begin_turn();
  /// Returns the next item to send or to end, and chooses its actor. The lock is held.
  std::optional<std::size_t> take_item();
  /// Returns the actor that gets the next item; null if all have enough. The lock is held.
  Actor* least_loaded();
  void send(std::size_t index);
  void call_done(std::size_t index, CallState& call);
  /// Queues the result of a call, or its item again.
  void take_result(std::size_t index, CallState& call);
  /// Queues the result of an item.
  void end_item(std::size_t index, Outcome<std::vector<std::byte>> result, DecodeContext* context);
  /// Returns true if the item of a failed call waits for another actor now. The lock is held.
  bool handle_failure(std::size_t index, const CallState& call);
  /// Like handle_failure(), for a call for which its actor has no room.
  bool wait_for_room(std::size_t index);
  /// Lets full actors get items again. The lock is held.
  void clear_full();
  /// Returns the result of an item that gets no call any more. The lock is held.
  Error error_of_unsent(const Item& item) const;
  void on_taken(const Completion& taken) override;

  const Setup setup_;
  const ActorId calling_actor_;  // actor whose handler started the run
  Mutex mutex_;                  // guards the members below
  std::vector<Item> items_;
  std::vector<Actor> actors_;
  std::deque<std::size_t> again_;  // items that wait for another actor, before all others
  std::size_t next_ = 0;           // first item that was not sent
  std::size_t untaken_ = 0;        // results that the reader has not taken
  std::size_t left_;               // items without a result
  std::optional<Error> ended_;     // reason why no more items are sent
  bool pumping_ = false;           // a thread is in pump(), and sees all changes
  std::uint64_t turn_ = 0;         // number of the turn of that thread
  std::size_t sent_in_turn_ = 0;
};

}  // namespace weft::actors
