#pragma once

#include <span>
#include <string>
#include <vector>

#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Entry of an actor's list with explicit communication: an action, or one half of a transfer
/// between two actors.
struct Operation {
  enum class What : std::uint8_t { kRun, kSend, kReceive };
  What what = What::kRun;
  /// The action to run. For a half: the action that computes (send) or uses (receive) the tensor.
  Action action;
  int edge = -1;          ///< Stage edge of a half.
  bool backward = false;  ///< Direction of a half.
  /// Microbatch of a half. Edge, direction and microbatch are the tag that matches the two halves.
  int microbatch = 0;
  int peer = -1;  ///< Peer actor of a half.
};

/// Prints an operation as PyTorch does: "0F3", "0SEND_F3", "1RECV_B0". The stage of a half is that
/// of its own side.
std::string to_string(const Operation& operation);

/// Positions of the two halves of a transfer.
enum class TransferOrder : std::uint8_t {
  /// The send follows the computation of the tensor; the receive precedes its use. A compound
  /// computes at its end, and uses at its beginning.
  kBeforeUse,
  /// Both halves follow the computation of the tensor: all lists are projections of one global
  /// order, so that no deadlock is possible.
  kTotalOrder,
};

/// Operations of every actor, in order.
using LoweredSchedule = std::vector<std::vector<Operation>>;

/// Adds the transfers along `edges` to a schedule. The global order is by ticks: every action takes
/// one tick, and within a tick actors are ordered by number. Throws Error(kInvalidArgument) if the
/// schedule cannot finish.
LoweredSchedule lower(const Schedule& schedule, std::span<const StageEdge> edges,
                      TransferOrder order);

/// Replaces each I that is directly followed by its W with a B.
Schedule merge_weight_gradients(Schedule schedule);

/// Describes the first violation: a half without its counterpart, or a duplicate half; "" if all
/// match.
std::string find_unmatched_half(const LoweredSchedule& lowered);

}  // namespace weft::mesh
