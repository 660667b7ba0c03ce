#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mesh/schedule/lowering.h"

namespace weft::mesh {

/// Queues in which an actor's sends and receives wait for each other.
enum class ChannelModel : std::uint8_t {
  kBlocking,                 ///< One thread runs computation and transfers in list order.
  kOneStream,                ///< Computation runs separately; all transfers share one queue.
  kPerKind,                  ///< One queue for activations, one for gradients.
  kPerPeer,                  ///< One queue per peer actor and direction.
  kPerPeerDirectionAndKind,  ///< One queue per peer, direction and kind.
  kPerEdge,                  ///< One queue per stage edge, kind and direction, as in Weft.
};
inline constexpr ChannelModel kChannelModels[] = {ChannelModel::kBlocking,
                                                  ChannelModel::kOneStream,
                                                  ChannelModel::kPerKind,
                                                  ChannelModel::kPerPeer,
                                                  ChannelModel::kPerPeerDirectionAndKind,
                                                  ChannelModel::kPerEdge};
/// Returns "blocking", "one stream", ...
std::string_view to_string(ChannelModel model);

/// Returns the cycle of waits in which the lists deadlock, "1RECV_F0 on 1 = 0SEND_F0 on 0 <- 0F0 on
/// 0 <- ...", each operation followed by the one it waits for; "" if all can finish. `buffers`:
/// tensors per edge and kind that may be sent before they are received; with 0, a send waits for
/// its receive.
std::string find_deadlock(const LoweredSchedule& lowered, ChannelModel model, int buffers = 0);

/// Returns the smallest number of buffers with which all lists finish; nothing if no number up to
/// `microbatches` suffices.
std::optional<int> min_buffers(const LoweredSchedule& lowered, ChannelModel model,
                               int microbatches);

}  // namespace weft::mesh
