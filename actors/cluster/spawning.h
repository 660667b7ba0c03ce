#pragma once

#include <type_traits>
#include <utility>

#include "actors/call/future.h"

namespace weft::actors {

/// Pending spawn of an actor's children, with their handle as result: see Context::spawn().
///
///   auto spawning = context.spawn<Cache>("cache", {.restarts = 3});
///   ActorRef<Cache> cache = co_await spawning;
///
/// Only a variable can be awaited, once. GCC 12 destroys temporaries in braces, such as the
/// options, twice if they are part of a co_await expression.
template <typename R>
class [[nodiscard]] Spawning final {
 public:
  explicit Spawning(Future<R> future) : future_(std::move(future)) {}

  Future<R> operator co_await() & { return std::move(future_); }
  template <typename U = R>
  Future<R> operator co_await() && {
    static_assert(!std::is_same_v<U, R>,
                  "begin a spawn in a statement of its own: auto spawning = context.spawn<T>(...); "
                  "then co_await spawning");
    return std::move(future_);
  }
  /// Blocks until the children are there; see Future::get().
  R get() { return future_.get(); }
  bool ready() const { return future_.ready(); }

 private:
  Future<R> future_;
};

}  // namespace weft::actors
