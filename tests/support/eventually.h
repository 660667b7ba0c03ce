#pragma once

#include <poll.h>

#include <chrono>
#include <functional>

namespace weft::test {

/// Time after which a waiting test fails. Tests do not assert how quickly something happens,
/// because machines are loaded and sanitizers slow. Messages tell an immediate event from a later
/// one.
inline constexpr std::chrono::seconds kPatience{180};

/// Polls until `done` returns true, for at most `within`. Real processes and threads cannot use a
/// simulated clock.
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
