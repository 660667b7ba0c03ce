#pragma once

#include <vector>

#include "core/simulation/memory_timeline.h"
#include "mesh/schedule/costs.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

struct SimulatedAction {
  Action action;
  double start = 0;  ///< The action may wait between `start` and `end`.
  double end = 0;
};

struct SimulatedTransfer {
  int edge = 0;  ///< Index into ScheduleCosts::edges.
  bool backward = false;
  int microbatch = 0;
  int from_actor = 0;
  int to_actor = 0;
  double start = 0;
  double end = 0;
};

struct SimulatedActor {
  std::vector<SimulatedAction> actions;
  double work = 0;                   ///< Time spent in actions.
  double start = 0;                  ///< Start of the first action.
  double end = 0;                    ///< End of the last action.
  double exposed_transfer_time = 0;  ///< Idle time caused only by transfers in flight.
  /// Peak memory: activations, tensors to be sent, and received tensors until their use ends.
  double peak = 0;
  std::vector<MemoryLevel> memory;
};

/// Simulated times and memory of one step. A value.
struct ScheduleSimulation {
  double makespan = 0;         ///< End of the last action.
  double makespan_bubble = 0;  ///< Makespan minus the work of the busiest actor.
  /// Largest idle time of an actor between its first start and last end. Relevant if the next step
  /// may begin staggered.
  double span_bubble = 0;
  double exposed_transfer_time = 0;  ///< Mean over actors of theirs.
  double mean_action_end = 0;  ///< Mean end of all actions: a measure of how early work is done.
  std::vector<SimulatedActor> actors;
  std::vector<SimulatedTransfer> transfers;
  /// End of the step in a run: includes sends, reductions, the final exchange, and REDUCE_GRAD and
  /// OPT of stages that lack them in the schedule.
  double step_time = 0;

  /// Element of the critical path: an action, or the transfer that it waited for.
  struct PathStep {
    int actor = 0;  ///< Actor of the action, or receiving actor of the transfer.
    int index = 0;  ///< Index into the actor's actions, or into `transfers`.
    bool transfer = false;
    friend bool operator==(const PathStep&, const PathStep&) = default;
  };
  /// Critical path in time order, from a start at 0 to the last end. Transfers of vocabulary passes
  /// appear as gaps.
  std::vector<PathStep> critical_path;

  double bubble_rate() const { return makespan > 0 ? makespan_bubble / makespan : 0; }
  double peak() const;
};

struct SimulationOptions {
  /// Receives of one edge and direction that are posted ahead: transfer n may start only after the
  /// action that uses transfer n - credits ends. Meanwhile the sender keeps the tensor and
  /// continues. 0: unlimited.
  int credits = 0;
  bool details = true;  ///< False: omits actions, transfers, memory levels and the path.
  /// Simulates Lowering::kSafe: all actions and transfers have one global order, which does not
  /// depend on durations, and both actors block during a transfer. Ignores `credits`.
  bool blocking = false;
};

/// Simulates one step. Every actor runs its actions in order, and each action blocks only where it
/// needs a missing tensor. Transfers start when the tensor exists, in sequence per edge and
/// direction, and overlap computation. A REDUCE_GRAD starts a reduction that overlaps computation
/// and does not compete with transfers between actors; an actor's reductions run in sequence, and
/// the end of the step waits for them.
///
/// Pure. Linear in the number of actions and transfers (times a logarithm if interfaces are
/// shared). Throws Error(kInvalidArgument) if costs and schedule do not match, or if the schedule
/// cannot finish.
ScheduleSimulation simulate(const Schedule& schedule, const ScheduleCosts& costs,
                            const SimulationOptions& options = {});

}  // namespace weft::mesh
