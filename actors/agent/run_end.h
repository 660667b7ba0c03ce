#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"

namespace weft::actors {

enum class RunState : std::uint8_t {
  kStarting,  ///< A detached run whose driver is not here yet.
  kRunning,
  kAway,  ///< It does not answer, and may come back.
  kDone,
  kFailed,
  kInterrupted,
  kLost,  ///< It has ended without a word.
};

/// How a program that owns meshes ends, from itself.
struct RunEnd {
  RunState state = RunState::kDone;
  std::string why = {};  ///< empty where there is nothing to explain
  static constexpr auto fields = weft::fields(&RunEnd::state, &RunEnd::why);
};

}  // namespace weft::actors

template <>
struct weft::last_enumerator<weft::actors::RunState> {
  static constexpr auto kValue = weft::actors::RunState::kLost;
};
