#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mesh/schedule/lowering.h"

namespace weft::mesh {

/// How an actor's halves of transfers wait for each other.
enum class ChannelModel : std::uint8_t {
  kBlocking,        ///< One thread does everything in the order of the list.
  kOneStream,       ///< Computation apart; all transfers in one queue.
  kPerKind,         ///< A queue for activations, one for gradients.
  kPerPeer,         ///< A queue per other actor and direction of travel.
  kPerPeerAndKind,  ///< Both.
  kPerEdge,         ///< A queue per stage edge and kind: what Weft does.
};
inline constexpr ChannelModel kChannelModels[] = {
    ChannelModel::kBlocking, ChannelModel::kOneStream,      ChannelModel::kPerKind,
    ChannelModel::kPerPeer,  ChannelModel::kPerPeerAndKind, ChannelModel::kPerEdge};
/// "blocking", "one stream", ...
std::string_view to_string(ChannelModel model);

/// The cycle of waits in which the lists would stand still, "1RECV_F0 on 1 = 0SEND_F0 on 0 <- 0F0
/// on 0 <- ...", each behind what must come before it; or "" if all can finish. `buffers`: tensors
/// per edge and kind that may be sent before they are received; 0: a send waits for its receive.
std::string find_deadlock(const LoweredSchedule& lowered, ChannelModel model, int buffers = 0);

/// The smallest number of buffers with which all can finish; nothing if no number helps.
std::optional<int> smallest_buffers(const LoweredSchedule& lowered, ChannelModel model,
                                    int microbatches);

}  // namespace weft::mesh
