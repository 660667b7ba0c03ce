#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "actors/call/call_frame.h"

namespace weft::actors {

template <typename T = void>
class task;

/// Common part of all task promises: the call, the awaiting coroutine and the exception.
struct TaskPromiseBase {
  CallFrame* frame = nullptr;
  std::coroutine_handle<> waiter;
  std::exception_ptr pending_exception;

  struct Final {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> handle) noexcept {
      return handle.promise().waiter ? handle.promise().waiter : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { pending_exception = std::current_exception(); }
};

template <typename T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  task<T> get_return_object();
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (pending_exception) std::rethrow_exception(pending_exception);
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  task<void> get_return_object();
  void return_void() {}
  void take() {
    if (pending_exception) std::rethrow_exception(pending_exception);
  }
};

/// Coroutine of a handler or of a function that a handler awaits. Starts when awaited; runs on the
/// actor's thread only.
///
///   actors::task<StepReport> step(StepId id) {
///     co_await transfers_.wait();
///     co_return report_;
///   }
///
/// co_await rethrows the task's exceptions. Parameters should be values: references must outlive
/// the task.
template <typename T>
class [[nodiscard]] task final {
 public:
  using promise_type = TaskPromise<T>;
  using Result = T;

  explicit task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  task(task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> waiter) noexcept {
    handle_.promise().frame = waiter.promise().frame;
    handle_.promise().waiter = waiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <typename T>
task<T> TaskPromise<T>::get_return_object() {
  return task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}
inline task<void> TaskPromise<void>::get_return_object() {
  return task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

template <typename T>
inline constexpr bool is_task = false;
template <typename T>
inline constexpr bool is_task<task<T>> = true;

}  // namespace weft::actors
