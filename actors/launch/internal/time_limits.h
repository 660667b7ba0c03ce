#pragma once

#include <chrono>

namespace weft::actors::internal {

/// A head or an agent that listens answers much sooner.
inline constexpr auto kConnectWithin = std::chrono::seconds(10);
/// How often the head is asked which hosts have joined.
inline constexpr auto kAskHeadEvery = std::chrono::milliseconds(5);
/// How long processes of a run may take to end by themselves before they are killed.
inline constexpr auto kStopGrace = std::chrono::seconds(3);
/// A device process ends two seconds before its agent, which is stopped, counts as gone.
inline constexpr auto kExplainedWithin = std::chrono::seconds(5);

}  // namespace weft::actors::internal
