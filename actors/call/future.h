#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "actors/call/call_frame.h"
#include "actors/call/pending.h"
#include "core/base/outcome.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// For within(): this call waits for ever.
inline constexpr Nanoseconds kNoDeadline = Nanoseconds::max();

/// The result of a call, or of several, that is on its way. Move-only, used once.
///
/// Ends by the call's deadline at the latest. Dropping a Future does not cancel the call. Any
/// thread may hold it, one at a time.
template <typename R>
class [[nodiscard]] Future final {
 public:
  using Extract = R (*)(Pending&);
  Future(std::shared_ptr<Pending> pending, Extract extract)
      : pending_(std::move(pending)), extract_(extract) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  bool ready() const { return pending_->done(); }
  void cancel() { pending_->cancel(); }
  /// Waits at most so long for the end; whether it has come. Blocks.
  bool wait_for(Nanoseconds within) const {
    return pending_->wait_until(SteadyClock().now() + within);
  }

  /// Waits for the end and returns the result or throws the error. Blocks: not in handlers, which
  /// co_await instead.
  R get() {
    pending_->wait_until(TimePoint::max());
    return extract_(*pending_);
  }
  /// As get(), but cancels and throws Error(kDeadlineExceeded) if the end has not come `within`
  /// this time.
  R get(Nanoseconds within) {
    if (!pending_->wait_until(SteadyClock().now() + within)) {
      pending_->cancel();
      throw_error(ErrorCode::kDeadlineExceeded, "no result within {} ms",
                  std::chrono::duration_cast<std::chrono::milliseconds>(within).count());
    }
    return extract_(*pending_);
  }

  // co_await, in handlers. A handler that is cancelled meanwhile cancels the call and sees
  // Error(kCancelled).
  bool await_ready() const { return pending_->done(); }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    CallFrame* frame = handle.promise().frame;
    if (!frame->arm([pending = pending_] { pending->cancel(); })) {
      pending_->cancel();
      return false;
    }
    pending_->when_done([mailbox = frame->mailbox(), frame, handle] {
      mailbox->resume({handle, frame});
    });
    return true;
  }
  R await_resume() { return extract_(*pending_); }

 private:
  std::shared_ptr<Pending> pending_;  // shared with the system, which completes it
  Extract extract_;
};

/// The value of a finished call.
template <typename R>
R take_result(const CallState& call) {
  if (call.error()) throw *call.error();
  if constexpr (!std::is_void_v<R>) return decode<R>(call.reply());
}

template <typename R>
Future<R> future_of(std::shared_ptr<CallState> call) {
  return Future<R>(std::move(call), [](Pending& pending) -> R {
    return take_result<R>(static_cast<CallState&>(pending));
  });
}

/// All values by rank, or the first error.
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
  return Future<Result>(GroupState::make(std::move(calls), GroupState::OnError::kFailFast),
                        [](Pending& pending) -> Result {
                          const auto& group = static_cast<GroupState&>(pending);
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
      GroupState::make(std::move(calls), GroupState::OnError::kCollect), [](Pending& pending) {
        std::vector<Outcome<R>> outcomes;
        const auto& group = static_cast<GroupState&>(pending);
        if (group.error()) throw *group.error();  // cancelled as a whole
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
