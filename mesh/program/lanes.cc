#include "mesh/program/lanes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/base/check.h"

namespace weft::mesh {
namespace {

constexpr std::array kPasses{Pass::kForward, Pass::kInputGrad, Pass::kWeightGrad};

/// What the steps of each (stage, pass) of a mesh read.
std::map<std::pair<StageId, Pass>, std::set<LocalId>> reads_of(const MeshPartition& part) {
  std::map<std::pair<StageId, Pass>, std::set<LocalId>> reads;
  for (const Step& step : part.steps) {
    for (const LocalId input : inputs_of(step)) reads[{step.stage, step.pass}].insert(input);
  }
  return reads;
}

}  // namespace

bool runs(ActionKind kind, Pass pass) {
  switch (kind) {
    case ActionKind::kForward: return pass == Pass::kForward;
    case ActionKind::kBackward: return pass != Pass::kForward;
    case ActionKind::kInputGrad: return pass == Pass::kInputGrad;
    case ActionKind::kWeightGrad: return pass == Pass::kWeightGrad;
    // R repeats what an F has run; reductions and updates are no steps of a microbatch.
    default: return false;
  }
}

std::vector<Lane> plan_lanes(const Partition& partition, const Schedule& schedule,
                             const IndexedVector<MeshId, int>& actor_of_mesh,
                             const ActionHistory& history) {
  IndexedVector<MeshId, std::map<std::pair<StageId, Pass>, std::set<LocalId>>> reads;
  for (const MeshPartition& part : partition.per_mesh) reads.push_back(reads_of(part));
  std::vector<Lane> lanes;
  for (const MeshEdge& edge : partition.edges) {
    Lane lane;
    const std::size_t receiver = actor_of_mesh[edge.to_mesh];
    const std::size_t sender = actor_of_mesh[edge.from_mesh];
    const auto uses = [&](const Action& action) {
      return std::any_of(kPasses.begin(), kPasses.end(), [&](Pass pass) {
        const auto& of_mesh = reads[edge.to_mesh];
        const auto found = of_mesh.find({StageId(action.stage), pass});
        return found != of_mesh.end() && runs(action.kind, pass) &&
               found->second.contains(edge.destination);
      });
    };
    lane.arrived_before.assign(schedule.microbatches, schedule.actors[sender].size());
    std::vector<bool> seen(schedule.microbatches, false);
    for (std::size_t i = 0; i < schedule.actors[receiver].size(); ++i) {
      const Action& action = schedule.actors[receiver][i];
      if (!uses(action) || seen[action.microbatch]) continue;
      const std::size_t microbatch = action.microbatch;
      seen[microbatch] = true;
      lane.uses.push_back({action.microbatch, i});
      lane.arrived_before[microbatch] = history.first_after({receiver, i}, sender);
    }
    WEFT_CHECK(lane.uses.size() == static_cast<std::size_t>(schedule.microbatches),
               "'{}' is sent but not used", partition.graph.value(edge.value).name);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace weft::mesh
