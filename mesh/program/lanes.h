#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {

/// The messages of one edge between meshes: one per microbatch, known by (edge, microbatch) on both
/// sides, so that no lane waits for another and the two ends need not agree on an order
/// (reference/schedules.md 5.3, theorem B).
struct Lane {
  /// A microbatch's tensor is first used by this action of a receiving actor.
  struct Use {
    int microbatch = 0;
    std::size_t action = 0;
  };
  /// By receiving actor, in the order of use.
  std::map<int, std::vector<Use>> uses;
  /// By sending actor, by microbatch: before this action the tensor has arrived, so that waiting
  /// there holds up nobody. The number of the actor's actions where only the end of the step says
  /// so. By data and orders this is certain; of an edge whose senders or receivers are all actors,
  /// for whom that would be late, it is so if actions take the times that order_actions() counts
  /// on.
  std::map<int, std::vector<std::size_t>> arrived_before;
};

/// Which actor of the schedule runs each device of each mesh.
using ActorsOfMeshes = IndexedVector<MeshId, std::vector<int>>;

/// Whether an action of this kind runs the steps of this pass of its stage. `vocabulary_barriers`:
/// the schedule's. With one, an S runs both what leads to its exchange and, later, the input
/// gradient that the exchange completes.
bool runs(ActionKind kind, Pass pass, int vocabulary_barriers = 0);

/// The stage of which an action runs steps: for vocabulary passes one of the spanning mesh. None if
/// the partition does not have it.
std::optional<StageId> stage_of(const Partition& partition, const Action& action);

/// One lane per edge of the partition. `order`: of the schedule's actions.
std::vector<Lane> plan_lanes(const Partition& partition, const Schedule& schedule,
                             const ActorsOfMeshes& actors, const ActionHistory& history,
                             const std::vector<OrderedAction>& order);

}  // namespace weft::mesh
