#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/schedule/channels.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// What must be true of a schedule before it is run.
enum class ScheduleProperty : std::uint8_t {
  /// Every forward, and B or one I and one W, once, on the stage's actor; vocabulary passes on all
  /// actors or none.
  kComplete,
  kLocalOrder,  ///< On each actor nothing stands before what it needs there.
  kAcyclic,     ///< Orders and data edges together can finish.
  /// Each edge's tensors are used in the order in which they are made; of each vocabulary pass all
  /// actors take the microbatches in one order.
  kEdgeMonotone,
  kDeadlockFree,  ///< Weft's channels (a lane per edge) cannot block.
  kMatched,       ///< Every send has one receive.
  kMemory,        ///< No actor holds more than its cap.
  kLifetime,      ///< Nothing is given back twice, nothing is left at the end.
  kBubble,        ///< No more idle time than was allowed.
  /// Gradients are summed in the order of microbatches, so the result is that of one device.
  kSemantics,
};
std::string_view to_string(ScheduleProperty property);

struct Finding {
  ScheduleProperty property = ScheduleProperty::kComplete;
  /// Absent: could not be looked at, because an earlier property fails.
  std::optional<bool> holds;
  /// Where it fails: actor, action, cycle. Where it holds: the number behind it, if there is one.
  std::string detail;
};

/// How the schedule would fare on channels of each kind, if receives stood just before their use.
struct ChannelFinding {
  ChannelModel model = ChannelModel::kPerEdge;
  std::optional<int> buffers;  ///< Smallest number per edge and direction; absent: none helps.
  std::string cycle;           ///< In which it stands still with 0.
};

struct ScheduleReport {
  std::vector<Finding> findings;  ///< One per property, in their order.
  std::vector<ChannelFinding> channels;

  bool holds() const;  ///< All that could be looked at.
  const Finding& of(ScheduleProperty property) const {
    return findings[static_cast<std::size_t>(property)];
  }
};

struct ScheduleLimits {
  /// Cap of each actor, in the unit of the costs; empty: none.
  std::vector<double> memory_of_actor;
  std::optional<double> makespan_bubble = {};  ///< As a share of the makespan, from 0 to 1.
};

/// Looks at all ten. Throws nothing for a bad schedule; Error(kInvalidArgument) if costs or limits
/// do not fit its counts.
ScheduleReport check_schedule(const Schedule& schedule, const ScheduleCosts& costs,
                              const ScheduleLimits& limits = {});

// Single properties: "" or what is wrong.
/// kLocalOrder
std::string find_misplaced(const Schedule& schedule, std::span<const StageEdge> edges);
/// kEdgeMonotone
std::string find_unordered_edge(const Schedule& schedule, std::span<const StageEdge> edges);
/// kLifetime; needs details
std::string find_leak(const ScheduleSimulation& simulation);

}  // namespace weft::mesh
