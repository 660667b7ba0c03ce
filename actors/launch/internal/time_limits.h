#pragma once

#include <chrono>

namespace weft::actors::internal {

/// Time for processes of a run to end by themselves before they are killed.
inline constexpr auto kStopGrace = std::chrono::seconds(3);

}  // namespace weft::actors::internal
