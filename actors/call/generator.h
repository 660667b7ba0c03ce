#pragma once

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

#include "actors/call/call_frame.h"
#include "actors/call/task.h"
#include "core/codec/codec.h"

namespace weft::actors {

template <typename T>
class generator;

namespace internal {
struct RunGenerator;
}

/// Awaitable of a co_yield: ends once the generator may produce its next value. A generator whose
/// call is cancelled is not resumed: the coroutine that awaits it destroys it.
struct Yielded {
  CallFrame& frame;

  bool await_ready() const { return frame.may_yield_on(); }
  void await_suspend(std::coroutine_handle<> generator) const { frame.suspend_at_yield(generator); }
  void await_resume() const noexcept {}
};

/// True for types whose temporaries GCC 12 destroys twice in a co_yield or co_await if braces make
/// them: aggregates whose members need a destructor. A temporary that a function returns is right,
/// but has the same type. Covers the yielded value, and no temporaries inside its expression.
template <typename U>
inline constexpr bool kIsFragileTemporary =
    !std::is_lvalue_reference_v<U> && std::is_aggregate_v<std::remove_cvref_t<U>> &&
    !std::is_trivially_destructible_v<std::remove_cvref_t<U>>;

template <typename T>
struct GeneratorPromise : TaskPromiseBase {
  using Value = std::conditional_t<std::is_void_v<T>, int, T>;
  generator<T> get_return_object();
  void return_void() {}
  Yielded yield_value(const Value& value) {
    frame->yield(encode(value));
    return {*frame};
  }
  /// Refuses temporaries that some compilers destroy twice, and others of their type.
  template <typename U = Value>
  requires kIsFragileTemporary<U> Yielded yield_value(U&&) {
    static_assert(
        !kIsFragileTemporary<U>,
        "give the value a name, also if it is a function's result or std::move()d: GCC 12 destroys "
        "structs made with braces in a co_yield twice. `const Line line{...}; co_yield line;`");
    return {*frame};
  }
};

/// Coroutine of a handler that gives several values of type T, one at each co_yield. It may
/// co_await, as a task does. Callers read it with stream<&Class::method>(...).
///
///   generator<std::string> lines(std::string path) {
///     std::ifstream file(path);
///     for (std::string line; std::getline(file, line);) co_yield line;
///   }
///
/// Suspended at co_yield while kStreamWindowValues values, or kStreamWindowBytes bytes of values,
/// are untaken: at most that many bytes and one value more. If its call is cancelled, as the stream
/// or its process has ended, the deadline has passed or the actor stops, it is destroyed at the
/// next co_yield. Runs on the actor's thread only. Parameters should be values.
template <typename T>
class [[nodiscard]] generator final {
 public:
  using promise_type = GeneratorPromise<T>;

  explicit generator(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  generator(generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  generator& operator=(generator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~generator() {
    if (handle_) handle_.destroy();
  }

  /// Refuses co_await.
  template <typename U = T>
  bool await_ready() const {
    static_assert(!std::is_same_v<T, U>,
                  "a generator is not awaited: its callers read it with stream<&T::method>(...), "
                  "and a function that others await returns task<T>");
    return true;
  }
  void await_suspend(std::coroutine_handle<>) const {}
  void await_resume() const {}

 private:
  friend internal::RunGenerator;
  /// Awaitable that runs the generator to its end, and rethrows its exceptions. co_await returns
  /// false if the call was cancelled while the generator was at a co_yield.
  struct Run {
    std::coroutine_handle<promise_type> handle;
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> waiter) noexcept {
      handle.promise().frame = waiter.promise().frame;
      handle.promise().waiter = waiter;
      return handle;
    }
    bool await_resume() {
      if (handle.promise().pending_exception)
        std::rethrow_exception(handle.promise().pending_exception);
      return handle.done();
    }
  };
  std::coroutine_handle<promise_type> handle_;
  static_assert(!std::is_void_v<T>,
                "a generator gives values, so generator<void> has no use: return task<> instead");
};

/// Runs generators, for the root coroutine of their call, which has set up the values.
struct internal::RunGenerator {
  template <typename T>
  static auto run(generator<T>& values) {
    return typename generator<T>::Run{values.handle_};
  }
};

template <typename T>
generator<T> GeneratorPromise<T>::get_return_object() {
  return generator<T>(std::coroutine_handle<GeneratorPromise<T>>::from_promise(*this));
}

template <typename T>
inline constexpr bool is_generator = false;
template <typename T>
inline constexpr bool is_generator<generator<T>> = true;

}  // namespace weft::actors
