#pragma once

#include <variant>
#include <vector>

#include "core/tensor/shape.h"
#include "mesh/sharding/move.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"

namespace weft::mesh {

/// Communication of one group of devices of a mesh.
struct GroupPlan {
  std::vector<int> ranks;  ///< Ranks of the mesh, ascending, which is also the order of summation.
  std::variant<transfer::ReshardPlan, transfer::CollectivePlan> plan;
};

/// Plans all-reduces over these axes of a tensor that has type `type` on every device.
std::vector<GroupPlan> plan_all_reduce(const TensorType& type, const std::vector<int>& axes,
                                       const DeviceMesh& mesh, const transfer::Topology& topology);

/// Plans a move of a tensor of the logical type `type`: one plan for each group of devices that
/// differ only along the move's axes. A slice is local and has no plans.
std::vector<GroupPlan> plan_move(const TensorType& type, const Move& move, const DeviceMesh& mesh,
                                 const transfer::Topology& topology);

}  // namespace weft::mesh
