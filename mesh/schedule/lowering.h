#pragma once

#include <span>
#include <string>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// An entry of an actor's list once communication is written out: an action, or one half of a
/// transfer between two actors.
struct Operation {
  enum class What : std::uint8_t { kRun, kSend, kReceive };
  What what = What::kRun;
  Action action;          ///< Of halves: what makes (send) or uses (receive) the tensor.
  int edge = -1;          ///< Of halves: the stage edge, ...
  bool backward = false;  ///< ... the direction, ...
  /// ... and with the microbatch the tag by which the halves find each other.
  int microbatch = 0;
  int peer = -1;  ///< Of halves: the other actor.
};

/// "0F3", "0SEND_F3", "1RECV_B0": PyTorch's spelling; of a half the stage is that of its own side.
std::string to_string(const Operation& operation);

/// Where the two halves of a transfer stand.
enum class TransferOrder : std::uint8_t {
  kBeforeUse,  ///< Send right after the tensor is made, receive right before it is used.
  /// Both halves when the tensor is made: all lists are projections of one order, so nothing can
  /// deadlock.
  kTotalOrder,
};

/// The operations of every actor, in order.
using LoweredSchedule = std::vector<std::vector<Operation>>;

/// Writes the transfers out that the edges ask for. The total order is by ticks: every action takes
/// one, and in a tick actors come in turn. Throws Error(kInvalidArgument) if the schedule cannot
/// finish.
LoweredSchedule lower(const Schedule& schedule, std::span<const StageEdge> edges,
                      TransferOrder order);

/// An I that its W follows at once becomes a B.
Schedule merge_weight_gradients(Schedule schedule);

/// What is wrong with the halves: a send without its receive, a receive without its send, one that
/// stands there twice, or "".
std::string find_unmatched(const LoweredSchedule& lowered);

}  // namespace weft::mesh
