#pragma once

#include <chrono>

namespace weft::actors::internal {

/// Time limit of connecting. A head or an agent that listens answers much sooner.
inline constexpr auto kConnectWithin = std::chrono::seconds(10);
/// Interval at which the head is asked which hosts have joined.
inline constexpr auto kAskHeadEvery = std::chrono::milliseconds(5);
/// Time for processes of a run to end by themselves before they are killed.
inline constexpr auto kStopGrace = std::chrono::seconds(3);
/// Time for a lost device to be explained: it ends two seconds before its stopped agent counts as
/// lost.
inline constexpr auto kIncidentWithinLease = std::chrono::seconds(5);

}  // namespace weft::actors::internal
