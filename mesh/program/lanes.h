#pragma once

#include <cstddef>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/schedule/action_order.h"

namespace weft::mesh {

/// The messages of one edge between meshes: one per microbatch, known by (edge, microbatch) on both
/// sides, so that no lane waits for another and the two ends need not agree on an order
/// (reference/schedules.md 5.3, theorem B).
struct Lane {
  /// A microbatch's tensor is first used by this action of the receiving actor. In the order of
  /// use.
  struct Use {
    int microbatch = 0;
    std::size_t action = 0;
  };
  std::vector<Use> uses;
  /// By microbatch: before this action of the sending actor the tensor has certainly arrived, so
  /// that waiting there holds up nobody. The number of its actions where only the end of the step
  /// says so.
  std::vector<std::size_t> arrived_before;
};

/// What an action of this kind runs of its stage.
bool runs(ActionKind kind, Pass pass);

/// One lane per edge of the partition. `actor_of_mesh` says which actor of the schedule each mesh
/// is.
std::vector<Lane> plan_lanes(const Partition& partition, const Schedule& schedule,
                             const IndexedVector<MeshId, int>& actor_of_mesh,
                             const ActionHistory& history);

}  // namespace weft::mesh
