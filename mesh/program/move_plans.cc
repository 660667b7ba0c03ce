#include "mesh/program/move_plans.h"

#include "mesh/sharding/axis_groups.h"

namespace weft::mesh {
namespace {

std::vector<transfer::Shard> shards(const Shape& shape, const Spec& spec, const DeviceMesh& mesh,
                                    const std::vector<int>& ranks) {
  std::vector<transfer::Shard> result;
  for (const int rank : ranks)
    result.push_back({mesh.devices()[rank], region_of(shape, spec, mesh, rank)});
  return result;
}

}  // namespace

std::vector<GroupPlan> plan_all_reduce(const TensorType& type, const std::vector<int>& axes,
                                       const DeviceMesh& mesh, const transfer::Topology& topology) {
  std::vector<GroupPlan> plans;
  for (const std::vector<int>& group : groups_over(mesh, axes))
    plans.push_back({group, transfer::plan_all_reduce(type.dtype, Region::whole(type.shape),
                                                      devices_at(mesh, group), topology)});
  return plans;
}

std::vector<GroupPlan> plan_move(const TensorType& type, const Move& move, const DeviceMesh& mesh,
                                 const transfer::Topology& topology) {
  std::vector<GroupPlan> plans;
  if (move.kind == MoveKind::kSlice) return plans;
  for (const std::vector<int>& group : groups_over(mesh, move.axes)) {
    const auto held = shards(type.shape, move.from, mesh, group);
    const auto wanted = shards(type.shape, move.to, mesh, group);
    GroupPlan plan{group, {}};
    if (move.kind == MoveKind::kAllReduce) {
      plan.plan = transfer::plan_all_reduce(type.dtype, Region::whole(held.front().region.shape()),
                                            devices_at(mesh, group), topology);
    } else if (move.kind == MoveKind::kReduceScatter) {
      plan.plan = transfer::plan_reduce_scatter(type.dtype, held.front().region, wanted, topology);
    } else if (move.kind == MoveKind::kAllGather) {
      plan.plan = transfer::plan_all_gather(type.dtype, wanted.front().region, held, topology);
    } else {
      // Each part has one holder and one receiver.
      plan.plan = transfer::plan_reshard({type, {type.shape, held}, {type.shape, wanted}}, topology,
                                         transfer::ReshardAlgorithm::kSendRecv);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace weft::mesh
