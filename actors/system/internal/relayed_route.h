#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/mailbox/mailbox.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Receiver of the answers of calls that came over relays. Any thread.
class RelayedAnswers {
 public:
  virtual ~RelayedAnswers() = default;
  virtual void answer(Reply reply) = 0;
  /// Called instead of answer() if the answer goes elsewhere.
  virtual void settle(std::uint64_t call_id) = 0;
};

/// Route of the calls of one process that come over relays, as their actors see it: the peer is
/// that process. Knows for each call where its answer goes: up the tree, or, if the process has
/// sent the call directly, as a relay was lost, to the process itself.
///
/// Shared by the calls and by the Relay. Any thread.
class RelayedRoute final : public ReturnRoute {
 public:
  /// Answers that are kept for calls that the process sends again: number and bytes, at most.
  static constexpr std::size_t kMaxKept = 1024;
  static constexpr std::size_t kMaxKeptBytes = std::size_t{4} << 20;

  explicit RelayedRoute(ProcessRef origin) : origin_(std::move(origin)) {}

  /// Expects a call. Returns false if the call is there already.
  bool expect(std::uint64_t call_id, std::shared_ptr<RelayedAnswers> tree,
              std::shared_ptr<ReturnRoute> direct);
  /// Sends the answer of a call to the process itself. Returns false if the call is not there.
  bool redirect(std::uint64_t call_id, const std::shared_ptr<ReturnRoute>& direct);
  /// Returns the answer of a call that has ended, if it is kept.
  std::optional<Reply> kept(std::uint64_t call_id) const;
  /// Drops the answers that are kept, as the process has ended.
  void drop_kept();
  /// Forgets a call that does not start. Its answer goes nowhere.
  void forget(std::uint64_t call_id);

  void reply(Reply reply, bool more) override;
  // Generators are called directly, so nobody waits for values here.
  void send_values(Values) override {}
  void run_soon(std::function<void()> send) override { send(); }
  void grant(const Credit&) override {}
  bool needs_credit() const override { return false; }  // an answer is the credit
  ProcessRef peer() const override { return origin_; }

 private:
  struct Destination {
    std::shared_ptr<RelayedAnswers> tree;
    std::shared_ptr<ReturnRoute> direct;  ///< Null: the tree.
  };
  void keep(const Reply& reply);

  const ProcessRef origin_;
  mutable Mutex mutex_;  // guards the members below
  std::unordered_map<std::uint64_t, Destination> expected_;
  std::deque<Reply> kept_;  // oldest first
  std::size_t kept_bytes_ = 0;
};

}  // namespace weft::actors
