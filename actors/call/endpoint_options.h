#pragma once

#include <type_traits>

#include "core/base/clock.h"

namespace weft::actors {

/// Placeholder for the default deadline: the method's, or else the system's. A time of zero or less
/// is none: a call with such a deadline fails at once and is not sent.
inline constexpr Nanoseconds kDefaultDeadline = Nanoseconds::min();

/// Tag of a method whose calls overtake waiting ordinary calls, also while an ordinary handler is
/// suspended or blocks.
struct Urgent {};
inline constexpr Urgent urgent{};
/// Tag of a method that may run several times. If the actor's process dies, a call is sent again
/// after the restart, within its deadline, and 5 times at most. All other methods run at most once.
struct Idempotent {};
inline constexpr Idempotent idempotent{};
/// Tag of a method that interleaves with others of its kind: while all suspended ordinary handlers
/// are concurrent, the next ordinary call starts if it is concurrent, too. Calls start in order of
/// their arrival; one without the tag waits until it can run alone.
struct Concurrent {};
inline constexpr Concurrent concurrent{};
/// Tag of a method that blocks its thread, with get() or in a system call. It runs on a thread of
/// its own; meanwhile the actor runs urgent calls only, which must not touch the state that it
/// uses. Timers and posted tasks wait for its end. It returns its result, not a task.
struct Blocking {};
inline constexpr Blocking blocking{};
/// Deadline of the calls of a method without within(); see deadline().
struct MethodDeadline {
  Nanoseconds within;
};
/// Option of a method: deadline of its calls without within(), in place of the system's.
/// kNoDeadline: none.
constexpr MethodDeadline deadline(Nanoseconds within) {
  if (within <= Nanoseconds::zero()) throw "the deadline of a method must be above zero";
  return {within};
}

/// Options of a method, as on() gets them. on() checks them: an assertion that fails here would
/// make Clang report several errors.
template <typename... Options>
struct OptionsOfMethod final {
  template <typename Option>
  static constexpr bool kHas = (... || std::is_same_v<Options, Option>);
  template <typename Option>
  static constexpr bool kIsOption =
      std::is_same_v<Option, Urgent> || std::is_same_v<Option, Idempotent> ||
      std::is_same_v<Option, Concurrent> || std::is_same_v<Option, Blocking> ||
      std::is_same_v<Option, MethodDeadline>;

  static constexpr bool kUrgent = kHas<Urgent>;
  static constexpr bool kConcurrent = kHas<Concurrent>;
  static constexpr bool kBlocking = kHas<Blocking>;

  /// Returns the method's deadline, or `otherwise` if it has none.
  static constexpr Nanoseconds deadline_or(Nanoseconds otherwise, const Options&... options) {
    Nanoseconds within = otherwise;
    (..., read(options, within));
    return within;
  }

 private:
  static constexpr void read(const MethodDeadline& option, Nanoseconds& within) {
    within = option.within;
  }
  template <typename Other>
  static constexpr void read(const Other&, Nanoseconds&) {}
};

}  // namespace weft::actors
