#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "actors/mailbox/mailbox.h"
#include "actors/system/internal/arrival_order.h"
#include "actors/system/internal/branches.h"
#include "actors/system/internal/hosted_actors.h"
#include "actors/system/internal/loop_timers.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/process_identity.h"
#include "actors/system/internal/relay_messages.h"
#include "actors/system/internal/relayed_route.h"
#include "actors/system/internal/relayed_tree.h"

namespace weft::actors {

/// Calls of other processes that travel trees through this one: passes them to its actors and on to
/// its branches.
///
///   parent ─ request ─►  RelayedTree ─► ArrivalOrder ─► actors of this process
///          ◄─ results ─               ─► Branch, Branch, ...
///
/// Also puts numbered calls that come directly in order with those of trees. Loop's thread only.
class Relay final {
 public:
  /// Bytes of arguments in this process that belong to unfinished trees, at most. A tree that does
  /// not fit is refused, and its calls come directly.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{128} << 20;
  /// Time for which results of trees wait for others, at most.
  static constexpr Nanoseconds kBatchFor = std::chrono::milliseconds(5);

  Relay(const SystemOptions& options, LoopTimers& timers, const ProcessIdentity& identity,
        HostedActors& actors, OutgoingCalls& calls, Branches& branches)
      : options_(options),
        timers_(timers),
        identity_(identity),
        actors_(actors),
        calls_(calls),
        branches_(branches) {}

  /// Relays a request, which `route` answers. Throws Error(kFailedPrecondition) if this process
  /// does not relay calls of that one, and Error(kResourceExhausted).
  void on_request(const std::shared_ptr<ReturnRoute>& route, std::uint64_t call_id,
                  RelayRequest request);
  void on_chunk(ProcessId parent, const RelayChunk& chunk);
  void on_cancel(ProcessId parent, const RelayCancel& cancel);
  void on_results(ProcessId child, RelayResults results) {
    branches_.on_results(child, std::move(results));
  }
  /// Delivers a numbered call that came directly.
  void on_numbered_call(const std::shared_ptr<ReturnRoute>& route, Call call, TimePoint deadline);
  /// Cancels a call that `origin` has sent over relays, or again.
  void cancel(ProcessId origin, std::uint64_t call_id);
  /// Drops the calls of a process, whose connection `route` is lost, that wait for others. Cancels
  /// its trees if it is `gone`. The other calls in trees of that process run on: their origin sends
  /// them directly and gets the answers.
  void on_peer_lost(ProcessId peer, const ReturnRoute& route, bool gone);

 private:
  using TreeKey = std::pair<ProcessId, std::uint64_t>;
  void check(const ProcessRef& parent, const RelayRequest& request) const;
  void check_ranks(const ProcessRef& parent, const RelayRequest& request) const;
  /// Returns the route of the relayed calls of a process.
  std::shared_ptr<RelayedRoute> route_of(const ProcessRef& origin);
  std::shared_ptr<RelayedTree> find(ProcessId parent, std::uint64_t key) const;
  void add(const TreeKey& key, const std::shared_ptr<RelayedTree>& tree);
  /// Passes the calls of this process to their actors.
  void deliver_own(const std::shared_ptr<RelayedTree>& tree);
  /// Cancels those calls of this process that the tree still has to answer; `ids` is empty: all.
  void cancel_own(RelayedTree& tree, const std::vector<std::uint64_t>& ids);
  void cancel_all(RelayedTree& tree);
  /// Sends the results of all trees up that have waited for others.
  void send_up();
  /// Calls send_up() after a moment. Any thread.
  void schedule();
  /// Returns false for an actor that has ended, or never was: no actor will have its id.
  bool may_have(ActorId actor) const;
  /// Refuses a call that would wait for an earlier one of an actor that has ended: the earlier one
  /// may be forgotten. `call`: its id, actor and route.
  void refuse_if_ended(ProcessId origin, const Envelope& call, bool is_resent);
  /// Delivers a call in its order, and the calls that waited for it.
  void deliver(ProcessId origin, Envelope envelope);
  void run(ArrivalOrder::Arrivals arrivals);
  /// Returns how the method of an actor combines numbers; null if that is unknown.
  CombineResults combine_of(const RelayRequest& request) const;

  const SystemOptions& options_;
  LoopTimers& timers_;
  const ProcessIdentity& identity_;
  HostedActors& actors_;
  OutgoingCalls& calls_;
  Branches& branches_;
  ArrivalOrder order_;
  std::unordered_map<const ReturnRoute*, std::uint64_t> direct_streams_;  // last one per link
  std::unordered_map<ProcessId, std::shared_ptr<RelayedRoute>> routes_;   // shared with calls
  std::map<TreeKey, std::shared_ptr<RelayedTree>> trees_;  // shared with their calls and branches
  std::size_t purge_at_ = 16;                              // size of trees_
  std::size_t purge_routes_at_ = 64;                       // size of routes_
  std::atomic<bool> scheduled_{false};                     // send_up() will be called
  const RelayedTree::Bytes bytes_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace weft::actors
