#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/message/ids.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Something that ends exactly once: what a Future waits for.
///
/// Shared by the Future and by whoever completes it; either may be gone first. Any thread.
class Pending {
 public:
  virtual ~Pending() = default;

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// True once done; false when `until` has passed first.
  bool wait_until(TimePoint until);
  /// Runs `then` once when done, on the thread that completes it; at once, on this thread, if it is
  /// done already. One at a time.
  void when_done(std::function<void()> then);
  /// Ends it with Error(kCancelled) unless it is done, and tells the other side to stop.
  virtual void cancel() = 0;

 protected:
  /// The first caller gets true, sets the result while no reader looks, and then calls publish().
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }
  void publish();

 private:
  std::atomic<bool> claimed_{false};
  std::atomic<bool> done_{false};
  Mutex mutex_;
  Condition changed_;
  bool waiting_ = false;
  std::function<void()> then_;
};

class CallState;

/// Who made a call and can withdraw it: the system. Outlives every call that is not done.
class CallOwner {
 public:
  virtual void withdraw(const CallState& call) = 0;

 protected:
  ~CallOwner() = default;
};

/// One call that awaits its reply: the bytes of the result, or an error.
class CallState final : public Pending {
 public:
  CallState(CallOwner& caller, std::shared_ptr<const ActorAddress> callee, const char* method_name,
            TimePoint call_deadline)
      : owner(caller), target(std::move(callee)), method(method_name), deadline(call_deadline) {}

  CallOwner& owner;
  // shared with every call of the same reference: addresses hold strings
  const std::shared_ptr<const ActorAddress> target;
  const char* const method;
  const TimePoint deadline;
  std::uint64_t id = 0;  ///< Set once, before it is shared.
  /// Likewise: the actor of this process whose handler waits; 0: a thread that is no actor's.
  ActorId calling_actor{};
  TimePoint began{};  ///< Likewise.
  /// It has left this process, so that whether it ran is unknown when no reply comes.
  std::atomic<bool> sent{false};

  bool complete(std::vector<std::byte> reply);
  bool fail(Error error);
  void cancel() override;
  /// "had not been sent" or "had been sent; whether it ran is unknown".
  const char* outcome() const;

  /// Valid once done.
  const std::optional<Error>& error() const { return error_; }
  const std::vector<std::byte>& reply() const { return reply_; }

 private:
  std::vector<std::byte> reply_;
  std::optional<Error> error_;
};

/// Several calls as one: done when all are, or, failing fast, with the first error.
class GroupState final : public Pending {
 public:
  enum class OnError { kFailFast, kCollect };
  static std::shared_ptr<GroupState> make(std::vector<std::shared_ptr<CallState>> parts,
                                          OnError on_error);

  void cancel() override;
  const std::vector<std::shared_ptr<CallState>>& parts() const { return parts_; }
  /// The first error when failing fast. Valid once done.
  const std::optional<Error>& error() const { return error_; }

 private:
  GroupState(std::vector<std::shared_ptr<CallState>> parts, OnError on_error)
      : parts_(std::move(parts)), on_error_(on_error), left_(parts_.size()) {}
  void part_done(const CallState& part);

  const std::vector<std::shared_ptr<CallState>> parts_;
  const OnError on_error_;
  std::atomic<std::size_t> left_;
  std::optional<Error> error_;
};

}  // namespace weft::actors
