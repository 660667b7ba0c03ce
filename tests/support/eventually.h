#pragma once

#include <poll.h>

#include <chrono>
#include <functional>

namespace weft::test {

/// Looks until `done`, at most `within`, for what another thread or process brings about. Real ones have no clock that could be
/// passed in.
inline bool eventually(const std::function<bool()>& done, std::chrono::milliseconds within = std::chrono::seconds(20)) {
  const auto give_up = std::chrono::steady_clock::now() + within;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

}  // namespace weft::test
