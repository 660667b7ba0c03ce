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

/// Properties that a schedule must have before it runs.
enum class ScheduleProperty : std::uint8_t {
  /// Every stage runs each F, and each B or one I and one W, once, on its own actor. Vocabulary
  /// passes are on all actors or none.
  kComplete,
  kLocalOrder,  ///< No action precedes its dependencies on the same actor.
  kAcyclic,     ///< Actors' orders and data dependencies form no cycle.
  /// Each edge's tensors are used in the order in which they are computed. All actors run each
  /// vocabulary pass in the same microbatch order.
  kEdgeMonotone,
  kDeadlockFree,  ///< The schedule does not deadlock with one lane per edge, as Weft has.
  kMatched,       ///< Every send has exactly one receive.
  kMemory,        ///< No actor exceeds its memory limit.
  kLifetime,      ///< All memory is freed exactly once.
  kBubble,        ///< Idle time is within the limit.
  /// Gradients are summed in microbatch order, so that the result equals that of one device.
  kSumOrder,
};
std::string_view to_string(ScheduleProperty property);

struct Finding {
  ScheduleProperty property = ScheduleProperty::kComplete;
  /// Absent if an earlier property fails, so that this one cannot be checked.
  std::optional<bool> holds;
  /// On failure the place: actor, action, cycle. Otherwise the measured number, if there is one.
  std::string detail;
};

/// Result of one channel model, with receives placed right before their use.
struct ChannelFinding {
  ChannelModel model = ChannelModel::kPerEdge;
  /// Smallest sufficient number per edge and direction; absent if none suffices.
  std::optional<int> buffers;
  std::string cycle;  ///< Cycle of waits with 0 buffers; empty if there is none.
};

struct ScheduleReport {
  std::vector<Finding> findings;  ///< One per property, in the order of the enumeration.
  std::vector<ChannelFinding> channels;

  bool holds() const;  ///< Returns whether every property was checked and holds.
  const Finding& of(ScheduleProperty property) const {
    return findings[static_cast<std::size_t>(property)];
  }
};

struct ScheduleLimits {
  /// Memory limit of each actor, in the unit of the costs; empty if unlimited.
  std::vector<double> memory_of_actor;
  /// Largest bubble, as a share of the makespan from 0 to 1.
  std::optional<double> makespan_bubble = {};
};

/// Checks all ten properties. A bad schedule does not throw. Throws Error(kInvalidArgument) if
/// costs or limits do not match the schedule's counts.
ScheduleReport check_schedule(const Schedule& schedule, const ScheduleCosts& costs,
                              const ScheduleLimits& limits = {});

// Checks of single properties. They return a description of the violation, or "".

/// Checks kLocalOrder.
std::string find_order_violation(const Schedule& schedule, std::span<const StageEdge> edges);
/// Checks kEdgeMonotone.
std::string find_edge_order_violation(const Schedule& schedule, std::span<const StageEdge> edges);
/// Checks kLifetime; needs a simulation with details.
std::string find_memory_leak(const ScheduleSimulation& simulation);

}  // namespace weft::mesh
