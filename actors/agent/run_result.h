#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"

namespace weft::actors {

enum class RunState : std::uint8_t {
  kStarting,  ///< Detached run whose driver has not connected yet.
  kRunning,
  kUnreachable,  ///< The driver does not answer, and may come back.
  kDone,
  kFailed,
  kInterrupted,
  kLost,  ///< Ended without a report.
};

/// End of a program that owns meshes, as it reports it.
struct RunResult {
  RunState state = RunState::kDone;
  std::string reason = {};  ///< Empty if there is none.
  static constexpr auto fields = weft::fields(&RunResult::state, &RunResult::reason);
};

}  // namespace weft::actors

template <>
struct weft::last_enumerator<weft::actors::RunState> {
  static constexpr auto kValue = weft::actors::RunState::kLost;
};
