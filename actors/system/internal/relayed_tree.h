#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "actors/call/partial_results.h"
#include "actors/system/internal/branches.h"
#include "actors/system/internal/open_calls.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/relay_messages.h"
#include "actors/system/internal/relayed_route.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Tree of calls that came to this process: its own calls, its branches, and the results that go
/// up.
///
/// Results go up together: at the end, and when the Relay says so. Those of a reduction are
/// combined first, and go up at the end. Shared by the Relay, the branches and the calls that have
/// no answer yet. Any thread, unless a member's comment says otherwise.
class RelayedTree final : public RelayedAnswers, public std::enable_shared_from_this<RelayedTree> {
 public:
  /// Bytes of results that go up at once.
  static constexpr std::size_t kBatchBytes = std::size_t{256} << 10;
  /// Bytes of results in one message to the parent, at most. One larger result travels alone.
  static constexpr std::size_t kMaxUpBytes = std::size_t{4} << 20;
  /// Bytes that may be unsent on the connection to the parent when results follow.
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{32} << 20;

  /// Process that has sent the tree, and the call that the last results answer.
  struct Parent {
    std::shared_ptr<ReturnRoute> route;
    ProcessId process;
    std::uint64_t call_id = 0;
  };
  /// Count of the bytes of all trees. Shared, as trees may live longer than the Relay.
  using Bytes = std::shared_ptr<std::atomic<std::uint64_t>>;
  /// Asks for send_up() after a moment, from any thread.
  using Schedule = std::function<void()>;
  /// Takes the first node of `request`. `combine`: combines results of a reduction; null: they go
  /// up as they are. `bytes` includes those of this tree up to its end.
  RelayedTree(OutgoingCalls& calls, Parent parent, RelayRequest& request, CombineResults combine,
              Bytes bytes, Schedule schedule);
  ~RelayedTree() override;

  const RelayHeader& header() const { return header_; }
  ProcessId parent() const { return parent_.process; }
  TimePoint deadline() const { return deadline_; }
  /// Calls of this process.
  const RelayNode& own() const { return own_; }
  /// Returns true if a call has no result yet.
  bool is_open(std::uint64_t call_id) const;
  bool finished() const { return finished_.load(std::memory_order_relaxed); }

  void answer(Reply reply) override;
  void settle(std::uint64_t call_id) override;
  /// Takes results of a branch.
  void add(RelayResults results);
  /// Sends the results that wait, or asks for a later try if too many bytes are unsent.
  void send_up();

  // Loop's thread only, up to the end of the class.
  void set_branches(std::vector<std::shared_ptr<Branch>> branches) {
    branches_ = std::move(branches);
  }
  /// Adds bytes of the arguments and sends them on. Returns true if they are complete now. Throws
  /// Error(kDataLoss) if there are too many.
  bool add_chunk(std::span<const std::byte> bytes);
  void set_arguments(std::vector<std::byte> first) { arguments_ = std::move(first); }
  std::vector<std::byte> take_arguments() { return std::move(arguments_); }
  /// Cancels calls of the branches; `ids` is empty: all.
  void cancel_branches(const std::vector<std::uint64_t>& ids);
  /// Drops all later results, as the parent is lost.
  void orphan() { orphaned_ = true; }
  /// Gives up a tree whose calls were not delivered, as the rest of its arguments does not come.
  void abandon();

  bool delivered = false;  ///< The calls of this process are with their actors.
  std::unordered_set<std::uint64_t> cancelled;  ///< Calls of this process that must not begin.

 private:
  PartialResult part_of(std::uint64_t call_id, std::vector<std::byte> value) const;
  void take(RelayResults results, std::span<const std::uint64_t> settled);
  /// Adds to the results that wait. The lock is held. Returns true if they must not wait.
  bool keep(RelayedResult result);
  RelayResults take_pending();
  /// Sends results to the parent in several messages, up to the last one, which it returns.
  RelayResults send_most(RelayResults results);

  OutgoingCalls& calls_;
  const Parent parent_;
  const std::uint64_t key_;
  const RelayHeader header_;
  const TimePoint deadline_;
  const RelayNode own_;
  const Bytes bytes_;
  const Schedule schedule_;
  std::unique_ptr<PartialResults> partial_;  // null without a function that combines
  std::atomic<bool> orphaned_{false};
  std::atomic<bool> finished_{false};

  Mutex sending_;        // keeps the order of messages to the parent; locked before mutex_
  mutable Mutex mutex_;  // guards the members below
  OpenCalls open_;
  RelayResults pending_;
  std::size_t pending_bytes_ = 0;

  // Loop's thread only.
  std::vector<std::shared_ptr<Branch>> branches_;
  std::vector<std::byte> arguments_;
};

}  // namespace weft::actors
