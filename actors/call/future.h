#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/call/call_frame.h"
#include "actors/call/pending.h"
#include "core/base/outcome.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Argument of within() for a call without a deadline.
inline constexpr Nanoseconds kNoDeadline = Nanoseconds::max();

class FirstDone;

/// Blocks until `pending` is done or until the time `until`. Returns true if it is done. If a
/// `blocking` handler waits and its call is cancelled, `pending` is cancelled, too.
inline bool wait_in_thread(const std::shared_ptr<Pending>& pending, TimePoint until) {
  CallFrame* const call = blocking_call();
  if (call == nullptr) return pending->wait_until(until);
  if (!call->set_cancel_callback([pending] { pending->cancel(); })) pending->cancel();
  const bool done = pending->wait_until(until);
  call->clear_cancel_callback();
  return done;
}

/// Pending result of one or several calls. Move-only; the result is taken once.
///
/// Completes at the call's deadline at the latest. Destroying a Future does not cancel the call.
/// Any thread may use it, one at a time.
template <typename R>
class [[nodiscard]] Future final {
 public:
  using Extract = R (*)(Pending&);
  Future(std::shared_ptr<Pending> pending, Extract extract)
      : pending_(std::move(pending)), extract_(extract) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  bool ready() const { return pending_->done(); }
  /// Cancels the call, unless it has ended: the result is Error(kCancelled). A handler that runs
  /// learns of it by Context::stop_token(). Does not block.
  void cancel() { pending_->cancel(); }
  /// Blocks until the call ends or `within` has passed. Returns true if the call has ended.
  bool wait_for(Nanoseconds within) const {
    return wait_in_thread(pending_, SteadyClock().now() + within);
  }

  /// Blocks until the call ends, then returns the result or throws the error. Handlers must not
  /// block, unless they are `blocking`: they use co_await.
  R get() {
    wait_in_thread(pending_, TimePoint::max());
    return extract_(*pending_);
  }
  /// Like get(), but cancels the call and throws Error(kDeadlineExceeded) after `within`.
  R get(Nanoseconds within) {
    if (!wait_in_thread(pending_, SteadyClock().now() + within)) {
      const CallProgress progress = pending_->progress();
      pending_->cancel();
      throw Error(
          ErrorCode::kDeadlineExceeded,
          fmt::format("the call has given no result within {} ms, so it was cancelled",
                      std::chrono::duration_cast<std::chrono::milliseconds>(within).count()))
          .with(progress);
    }
    return extract_(*pending_);
  }

  // Awaitable interface, for handlers. If the waiting handler is cancelled, the call is cancelled,
  // too, and co_await throws Error(kCancelled).
  bool await_ready() const { return pending_->done(); }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    CallFrame* frame = handle.promise().frame;
    // Cancelled or not, the result may be on its way on another thread: waits for it.
    if (!frame->set_cancel_callback([pending = pending_] { pending->cancel(); }))
      pending_->cancel();
    pending_->when_done([mailbox = frame->mailbox(), frame, handle] {
      mailbox->resume({handle, frame});
    });
    return true;
  }
  R await_resume() { return extract_(*pending_); }

 private:
  friend class FirstDone;
  std::shared_ptr<Pending> pending_;  // shared with the system, which completes it
  Extract extract_;
};

/// Returns the decoded result of a call. Throws an error with CallProgress::kReplyLost if that is
/// not possible.
template <typename R>
R decode_result(std::span<const std::byte> reply, DecodeContext* context) {
  try {
    return decode<R>(reply, context);
  } catch (const Error& error) {
    throw Error(error).with(CallProgress::kReplyLost);
  }
}

/// Returns the decoded result of a finished call, or throws its error.
template <typename R>
R take_result(const CallState& call) {
  if (call.error()) throw *call.error();
  if constexpr (!std::is_void_v<R>) return decode_result<R>(call.reply(), call.decode_context);
}

/// Returns the decoded result of an operation, or its error.
template <typename R>
Outcome<R> decode_outcome(const Outcome<std::vector<std::byte>>& result, DecodeContext* context) {
  if (!result.ok()) return result.error();
  try {
    if constexpr (std::is_void_v<R>) return Outcome<void>();
    else return decode_result<R>(result.value(), context);
  } catch (const Error& error) {
    return error;
  }
}

template <typename R>
Future<R> future_of(std::shared_ptr<CallState> call) {
  return Future<R>(std::move(call), [](Pending& pending) -> R {
    return take_result<R>(static_cast<CallState&>(pending));
  });
}

/// Result of future_of_all(): the values by rank, or void. The first error fails the whole group.
template <typename R>
struct AllOf {
  using Result = std::vector<R>;
};
template <>
struct AllOf<void> {
  using Result = void;
};

template <typename R>
Future<typename AllOf<R>::Result> future_of_all(std::vector<std::shared_ptr<CallState>> calls) {
  using Result = typename AllOf<R>::Result;
  return Future<Result>(CallGroup::make(std::move(calls), CallGroup::OnError::kFailFast),
                        [](Pending& pending) -> Result {
                          const auto& group = static_cast<CallGroup&>(pending);
                          if (group.error()) throw *group.error();
                          if constexpr (std::is_void_v<R>) {
                            for (const auto& call : group.parts()) take_result<void>(*call);
                          } else {
                            std::vector<R> values;
                            values.reserve(group.parts().size());
                            for (const auto& call : group.parts())
                              values.push_back(take_result<R>(*call));
                            return values;
                          }
                        });
}

template <typename R>
Future<std::vector<Outcome<R>>> future_of_each(std::vector<std::shared_ptr<CallState>> calls) {
  return Future<std::vector<Outcome<R>>>(
      CallGroup::make(std::move(calls), CallGroup::OnError::kCollect), [](Pending& pending) {
        std::vector<Outcome<R>> outcomes;
        const auto& group = static_cast<CallGroup&>(pending);
        if (group.error()) throw *group.error();  // the whole group was cancelled
        for (const auto& call : group.parts()) {
          try {
            if constexpr (std::is_void_v<R>) {
              take_result<R>(*call);
              outcomes.emplace_back();
            } else {
              outcomes.emplace_back(take_result<R>(*call));
            }
          } catch (const Error& error) {
            outcomes.emplace_back(error);
          }
        }
        return outcomes;
      });
}

}  // namespace weft::actors
