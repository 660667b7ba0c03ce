#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {

/// Messages of one edge between meshes, one per microbatch. Both sides identify a message by (edge,
/// microbatch), so that lanes are independent and the two sides need not agree on an order.
struct Lane {
  /// First use of a microbatch's tensor by a receiving actor.
  struct FirstUse {
    int microbatch = 0;
    std::size_t action = 0;
    /// Number of its compound among those that use tensors of the lane.
    std::size_t compound = 0;
  };
  /// Uses by receiving actor, in the order of use.
  std::map<int, std::vector<FirstUse>> uses;
  /// By sending actor and microbatch: index of the sender's action before which the tensor has
  /// arrived, so that waiting there does not block. The number of the actor's actions if only the
  /// end of the step guarantees arrival. Data dependencies guarantee the index, except on edges
  /// from or to the spanning mesh: there it assumes the durations of order_actions(), as a
  /// guaranteed point would be late.
  std::map<int, std::vector<std::size_t>> arrival_known_at;
};

/// Actor of the schedule that runs each device, by mesh and rank.
using ActorsOfMeshes = IndexedVector<MeshId, std::vector<int>>;

/// Returns whether an action of this kind runs the steps of this pass of its stage.
/// `vocabulary_barriers` is the schedule's. With one barrier, an S runs the steps up to its
/// exchange and, later, the input gradient that needs the exchange.
bool runs_pass(ActionKind kind, Pass pass, int vocabulary_barriers = 0);

/// Returns the stage whose steps an action runs. Vocabulary passes run stages of the spanning mesh;
/// absent if the partition has no such stage.
std::optional<StageId> stage_of(const Partition& partition, const Action& action);

/// Plans one lane per edge of the partition. `order`: total order of the schedule's actions.
std::vector<Lane> plan_lanes(const Partition& partition, const Schedule& schedule,
                             const ActorsOfMeshes& actors, const ActionHistory& history,
                             const std::vector<OrderedAction>& order);

}  // namespace weft::mesh
