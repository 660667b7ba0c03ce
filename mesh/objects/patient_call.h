#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "actors/call/future.h"
#include "actors/call/task.h"
#include "actors/system/context.h"
#include "core/base/error.h"

namespace weft::mesh {

/// Times that a handler waits for a process that has too many requests or no memory at the moment,
/// and the first wait. Each wait is longer than the one before, about two seconds in all.
inline constexpr std::size_t kMostWaits = 20;
inline constexpr auto kWait = std::chrono::milliseconds(10);

/// Returns the result of the call that `call` makes. Makes it again while the other process, or the
/// way to it, has too many calls.
template <typename T, typename Call>
actors::task<T> patient_call(actors::Context& context, Call call) {
  for (std::size_t waits = 1;; ++waits) {
    try {
      actors::Future<T> made = call();
      co_return co_await made;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted || waits > kMostWaits) throw;
    }
    co_await context.sleep(kWait * waits);
  }
}

}  // namespace weft::mesh
