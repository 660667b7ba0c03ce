#pragma once

#include <vector>

#include "core/simulation/memory_sweep.h"
#include "mesh/schedule/costs.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

struct SimulatedAction {
  Action action;
  double start = 0;  ///< It may be held up on its way to the end.
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
  double work = 0;     ///< Time in actions.
  double start = 0;    ///< Of the first one.
  double end = 0;      ///< Of the last one.
  double exposed = 0;  ///< Time in which it stood still only because a transfer was not there yet.
  /// Most memory held: activations, tensors that wait to be sent, that arrive or wait to be used.
  double peak = 0;
  std::vector<MemoryLevel> memory;
};

/// What one step costs under a schedule. A value.
struct ScheduleSimulation {
  double makespan = 0;         ///< Until the last action is over.
  double makespan_bubble = 0;  ///< Makespan minus the work of the busiest actor.
  /// Most idle time between an actor's first start and last end: what counts when the next step may
  /// begin staggered.
  double span_bubble = 0;
  double exposed = 0;   ///< Mean over actors.
  double mean_end = 0;  ///< Of all actions: how early the work gets done.
  std::vector<SimulatedActor> actors;
  std::vector<SimulatedTransfer> transfers;
  /// Until a run's step is over: its sends, reductions, REDUCE_GRAD and OPT of the stages where the
  /// schedule lacks them, and the exchange between these.
  double step = 0;

  /// One step of the longest chain: an action, or the transfer that brought what it waited for.
  struct PathStep {
    int actor = 0;  ///< Of the action, or where the transfer arrives.
    int index = 0;  ///< Into the actor's actions, or into transfers.
    bool transfer = false;
    friend bool operator==(const PathStep&, const PathStep&) = default;
  };
  /// In time order, from a start at 0 to the last end. What moves for vocabulary passes is a gap.
  std::vector<PathStep> critical_path;

  double bubble_rate() const { return makespan > 0 ? makespan_bubble / makespan : 0; }
  double peak() const;
};

struct SimulationOptions {
  /// Receives of one edge and direction that are posted ahead: a transfer may start only when the
  /// action that uses the one that many before it is over. Its sender keeps the tensor and goes on.
  /// 0: any number.
  int credits = 0;
  bool details = true;  ///< False: no actions, transfers, memory levels and path, only numbers.
  /// As Lowering::kSafe runs it: every transfer is one element of one order of everything, which
  /// does not depend on times, and both its actors stand still there until it is over. Credits do
  /// not matter then.
  bool blocking = false;
};

/// Plays one step. Every actor runs its actions in order, each as soon as what it needs is there,
/// as far as it needs nothing more; transfers start when the tensor exists, one after the other per
/// edge and direction, beside the computation. So does what a REDUCE_GRAD begins, one after the
/// other per actor, and nobody waits for it before the end of the step; it meets no transfers
/// between actors. Where transfers block, the actor stands still in it. Pure; linear in the number
/// of actions and transfers (times a logarithm where interfaces are shared). Throws
/// Error(kInvalidArgument) if costs and schedule do not fit together or the schedule cannot finish.
ScheduleSimulation simulate(const Schedule& schedule, const ScheduleCosts& costs,
                            const SimulationOptions& options = {});

}  // namespace weft::mesh
