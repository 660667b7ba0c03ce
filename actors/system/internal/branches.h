#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/call/pending.h"
#include "actors/message/ids.h"
#include "actors/system/internal/open_calls.h"
#include "actors/system/internal/outgoing_calls.h"
#include "actors/system/internal/relay_messages.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

class Branch;

/// Branches of this process: the parts of trees that it has sent to other processes. Any thread.
class Branches final {
 public:
  /// Receives what becomes of the calls of a branch: of each call once. May be called by the thread
  /// that starts the branch.
  using Sink = std::function<void(RelayResults)>;
  /// Returns a call of this process by its id; null if it has ended.
  using FindCall = std::function<std::shared_ptr<CallState>(std::uint64_t id)>;
  /// Processes that do not relay calls, at most. More are forgotten.
  static constexpr std::size_t kMaxRefusers = 4096;
  /// Time for which they are remembered.
  static constexpr Nanoseconds kRefusalKept = std::chrono::seconds(60);

  explicit Branches(OutgoingCalls& calls) : calls_(calls) {}

  /// Sends `nodes`, of which the first is at the position `first` of its tree, to their processes:
  /// at most kTreeFanOut branches, which give their results to `sink`. Arguments above
  /// kMaxInlineBytes follow with Branch::send_chunk(). `find_call`: finds the calls if they are of
  /// this process; else null.
  std::vector<std::shared_ptr<Branch>> start(const RelayHeader& header, TimePoint deadline,
                                             std::uint64_t first, std::vector<RelayNode> nodes,
                                             const std::vector<std::byte>& arguments,
                                             const Sink& sink, const FindCall& find_call = nullptr);
  /// Passes results on that a process sends before its answer.
  void on_results(ProcessId from, RelayResults results);
  /// Notes a process that has refused to relay calls, or that a relay could not reach.
  void note_refusal(ProcessId process);
  /// Returns true if a process was noted a short time ago.
  bool has_refused(ProcessId process) const;

 private:
  friend class Branch;
  std::uint64_t add(const std::shared_ptr<Branch>& branch);
  void remove(std::uint64_t key);

  OutgoingCalls& calls_;
  mutable Mutex mutex_;  // guards the members below
  std::uint64_t last_key_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Branch>> branches_;  // shared with its call
  std::unordered_map<ProcessId, TimePoint> refusers_;          // and when they are forgotten
};

/// Part of a tree that one process relays, as its parent sees it. Ends when that process has
/// answered or is lost; calls without a result are lost then. Any thread.
class Branch final : public CarriedCalls, public std::enable_shared_from_this<Branch> {
 public:
  Branch(Branches& branches, OutgoingCalls& calls, const std::vector<RelayNode>& nodes,
         Branches::Sink sink, const Branches::FindCall& find_call);

  /// Sends the next bytes of the arguments.
  void send_chunk(std::span<const std::byte> bytes);
  /// Cancels those calls of `ids` that are in this branch and have no result.
  void cancel(const std::vector<std::uint64_t>& ids);
  /// Cancels all calls.
  void cancel_all();
  void leave(std::vector<std::byte>& arguments) override;

 private:
  friend class Branches;
  void send(const RelayRequest& request);
  void on_results(RelayResults results);
  void on_end(const CallState& call);
  /// Removes the results of calls that have one already, and notes those that are left.
  void claim(RelayResults& results);

  Branches& branches_;
  OutgoingCalls& calls_;
  const ProcessRef head_;
  std::uint64_t key_ = 0;  // set before send()
  // Calls of this process, until they leave. Shared with their Futures.
  std::vector<std::shared_ptr<CallState>> own_calls_;
  Branches::Sink sink_;  // dropped at the end, as it holds the tree that has this branch
  Mutex mutex_;          // guards open_ and sink_
  OpenCalls open_;
};

}  // namespace weft::actors
