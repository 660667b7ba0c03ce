#pragma once

#include <cstddef>
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
///         └── its process died, may run again ◄──┘
///
/// Calls are made on the thread that starts the run, on those that complete calls, and on the
/// reader's. Any thread.
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
  /// Calls of one item at most, so that an item that kills its processes does not kill all.
  static constexpr int kMaxAttempts = 5;
  struct Item {
    std::vector<std::byte> arguments;
    int attempts = 0;
    std::size_t actor = 0;
    std::shared_ptr<CallState> call;  ///< Null unless a call is under way.
  };
  struct Actor {
    std::size_t unanswered = 0;
    bool lost = false;
  };

  MapRun(Setup setup, std::vector<std::vector<std::byte>> items);
  /// Sends items, or ends them once no more may be sent, as far as the reader keeps up.
  void pump();
  /// Returns the next item to send or to end, and chooses its actor. The lock is held.
  std::optional<std::size_t> take_item();
  /// Returns the actor that gets the next item; null if all have enough. The lock is held.
  Actor* least_loaded();
  void send(std::size_t index);
  void call_done(std::size_t index, CallState& call);
  /// Queues the result of an item.
  void end_item(std::size_t index, Outcome<std::vector<std::byte>> result, DecodeContext* context);
  /// Returns true if the item of a failed call waits for another actor now. The lock is held.
  bool handle_failure(std::size_t index, const CallState& call);
  void on_taken() override;

  const Setup setup_;
  const ActorId calling_actor_;  // actor whose handler started the run
  Mutex mutex_;                  // guards the members below
  std::vector<Item> items_;
  std::vector<Actor> actors_;
  std::deque<std::size_t> again_;  // items that wait for another actor, before all others
  std::size_t next_ = 0;           // first item that was not sent
  std::size_t untaken_ = 0;        // results that the reader has not taken
  std::size_t left_;               // items without a result
  std::optional<Error> ended_;     // result of all items that were not sent
  bool pumping_ = false;           // a thread is in pump(), and sees all changes
};

}  // namespace weft::actors
