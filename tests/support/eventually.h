#pragma once

#include <poll.h>

#include <chrono>
#include <functional>

namespace weft::test {

/// After so long, what a test waits for counts as hanging. No test asserts how quickly something
/// happens: machines are loaded and sanitizers slow. What must happen "at once" is told from what
/// would happen later by its words.
inline constexpr std::chrono::seconds kPatience{180};

/// Looks until `done`, at most `within`, for what another thread or process brings about. Real ones
/// have no clock that could be passed in.
inline bool eventually(const std::function<bool()>& done,
                       std::chrono::milliseconds within = kPatience) {
  const auto give_up = std::chrono::steady_clock::now() + within;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

}  // namespace weft::test
