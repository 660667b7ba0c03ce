#pragma once

#include <variant>
#include <vector>

#include "core/tensor/shape.h"
#include "mesh/sharding/move.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"

namespace weft::mesh {

/// What a group of devices of a mesh does together.
struct GroupPlan {
  std::vector<int> ranks;  ///< Of the mesh, ascending: also the order in which they are summed.
  std::variant<transfer::ReshardPlan, transfer::CollectivePlan> plan;
};

/// The sums of a tensor of `type`, alike on all devices, over these axes.
std::vector<GroupPlan> plan_all_reduce(const TensorType& type, const std::vector<int>& axes,
                                       const DeviceMesh& mesh, const transfer::Topology& topology);

/// A move of a tensor of `type` (of the whole): a plan for each group that differs along its axes
/// only; none for a slice, which each device takes by itself.
std::vector<GroupPlan> plan_move(const TensorType& type, const Move& move, const DeviceMesh& mesh,
                                 const transfer::Topology& topology);

}  // namespace weft::mesh
