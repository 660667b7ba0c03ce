#pragma once

#include <vector>

#include "mesh/pipeline/schedule.h"
#include "mesh/simulation/costs.h"

namespace weft::mesh {

struct SimulatedAction {
  Action action;
  double start = 0;
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

/// Memory held on an actor from `time` on.
struct MemoryLevel {
  double time = 0;
  double held = 0;
};

struct SimulatedActor {
  std::vector<SimulatedAction> actions;
  double work = 0;     ///< Time in actions.
  double start = 0;    ///< Of the first one.
  double end = 0;      ///< Of the last one.
  double exposed = 0;  ///< Time in which it stood still only because a transfer was not there yet.
  double peak = 0;     ///< Most memory held: activations, tensors that wait to be sent, that arrive or wait to be used.
  std::vector<MemoryLevel> memory;
};

/// What one step costs under a schedule. A value.
struct Simulation {
  double makespan = 0;
  double makespan_bubble = 0;  ///< Makespan minus the work of the busiest actor.
  /// Most idle time between an actor's first start and last end: what counts when the next step may begin staggered.
  double span_bubble = 0;
  double exposed = 0;   ///< Mean over actors.
  double mean_end = 0;  ///< Of all actions: how early the work gets done.
  std::vector<SimulatedActor> actors;
  std::vector<SimulatedTransfer> transfers;

  /// One step of the longest chain: an action, or the transfer that brought what it waited for.
  struct PathStep {
    int actor = 0;  ///< Of the action, or where the transfer arrives.
    int index = 0;  ///< Into the actor's actions, or into transfers.
    bool transfer = false;
  };
  std::vector<PathStep> critical_path;  ///< In time order, from a start at 0 to the last end.

  double bubble_rate() const { return makespan > 0 ? makespan_bubble / makespan : 0; }
  double peak() const;
};

struct SimulationOptions {
  /// Transfers of one edge and direction that may be under way or wait at the receiver: the next may start only when the one that
  /// many before it has been used, and an actor stands still when it would have to start one too many. 0: any number.
  int credits = 0;
  bool details = true;  ///< False: no actions, transfers, memory levels and path, only numbers.
};

/// Plays one step. Every actor runs its actions in order, each as soon as what it needs is there; transfers start when the tensor
/// exists, one after the other per edge and direction, beside the computation. Pure; linear in the number of actions and
/// transfers (times a logarithm where interfaces are shared). Throws Error(kInvalidArgument) if costs and schedule do not fit
/// together or the schedule cannot finish.
Simulation simulate(const Schedule& schedule, const ScheduleCosts& costs, const SimulationOptions& options = {});

}  // namespace weft::mesh
