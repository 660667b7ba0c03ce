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

/// Returns the values that the steps of each (stage, pass) of a mesh read.
std::map<std::pair<StageId, Pass>, std::set<LocalId>> values_read_by_pass(
    const MeshPartition& part) {
  std::map<std::pair<StageId, Pass>, std::set<LocalId>> reads;
  for (const Step& step : part.steps) {
    for (const LocalId input : inputs_of(step)) reads[{step.stage, step.pass}].insert(input);
  }
  return reads;
}

}  // namespace

bool runs_pass(ActionKind kind, Pass pass, int vocabulary_barriers) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kInputForward: return pass == Pass::kForward;
    case ActionKind::kBackward:
    case ActionKind::kInputBackward: return pass != Pass::kForward;
    case ActionKind::kInputGrad: return pass == Pass::kInputGrad;
    case ActionKind::kWeightGrad: return pass == Pass::kWeightGrad;
    case ActionKind::kVocabularyScores:
      return pass == Pass::kForward || (pass == Pass::kInputGrad && vocabulary_barriers == 1);
    case ActionKind::kVocabularyGrads:
      return pass == Pass::kWeightGrad || (pass == Pass::kInputGrad && vocabulary_barriers != 1);
    // R repeats steps of an F; reductions and updates are no steps of a microbatch.
    default: return false;
  }
}

std::optional<StageId> stage_of(const Partition& partition, const Action& action) {
  switch (action.kind) {
    case ActionKind::kVocabularyScores:
    case ActionKind::kVocabularyGrads:
      return partition.vocabulary ? std::optional(partition.vocabulary->output) : std::nullopt;
    case ActionKind::kInputForward:
    case ActionKind::kInputBackward:
      return partition.vocabulary ? partition.vocabulary->input : std::nullopt;
    default: return StageId(action.stage);
  }
}

namespace {

/// Planner of the lanes of one partition under one schedule.
class LanePlanner {
 public:
  LanePlanner(const Partition& partition, const Schedule& schedule, const ActorsOfMeshes& actors,
              const ActionHistory& history, const std::vector<OrderedAction>& order)
      : partition_(partition), schedule_(schedule), actors_(actors), history_(history) {
    for (const MeshPartition& part : partition.per_mesh)
      reads_.push_back(values_read_by_pass(part));
    for (const auto& actions : schedule.actors) starts_.emplace_back(actions.size());
    for (const OrderedAction& ordered : order)
      starts_[ordered.place.actor][ordered.place.index] = ordered.start;
  }

  Lane plan(const MeshEdge& edge) const {
    Lane lane;
    for (const int receiver : actors_of(edge.to_mesh)) {
      lane.uses[receiver] = uses_by(edge, receiver);
      WEFT_CHECK(lane.uses[receiver].size() == static_cast<std::size_t>(schedule_.microbatches),
                 "'{}' is sent but not used", partition_.graph.value(edge.value).name);
    }
    const bool by_time = partition_.spans(edge.from_mesh) || partition_.spans(edge.to_mesh);
    for (const int sender : actors_of(edge.from_mesh)) {
      std::vector<std::size_t>& arrived = lane.arrival_known_at[sender];
      arrived.assign(schedule_.microbatches, 0);
      for (const auto& [receiver, uses] : lane.uses) {
        for (const Lane::FirstUse& use : uses) {
          const ActionPlace place{static_cast<std::size_t>(receiver), use.action};
          arrived[use.microbatch] = std::max(arrived[use.microbatch],
                                             by_time ? first_starting_after(place, sender)
                                                     : history_.first_action_after(place, sender));
        }
      }
    }
    return lane;
  }

 private:
  std::set<int> actors_of(MeshId mesh) const {
    return {actors_[mesh].begin(), actors_[mesh].end()};
  }

  bool uses(const MeshEdge& edge, const Action& action) const {
    const std::optional<StageId> stage = stage_of(partition_, action);
    if (!stage) return false;
    return std::any_of(kPasses.begin(), kPasses.end(), [&](Pass pass) {
      const auto& of_mesh = reads_[edge.to_mesh];
      const auto found = of_mesh.find({*stage, pass});
      return found != of_mesh.end() &&
             runs_pass(action.kind, pass, schedule_.vocabulary_barriers) &&
             found->second.contains(edge.destination);
    });
  }

  std::vector<Lane::FirstUse> uses_by(const MeshEdge& edge, int receiver) const {
    std::vector<Lane::FirstUse> result;
    std::vector<bool> seen(schedule_.microbatches, false);
    const std::vector<Action>& actions = schedule_.actors[receiver];
    std::size_t compounds = 0;
    for (std::size_t begin = 0; begin < actions.size();) {
      const std::size_t end = end_of_compound(actions, begin), before = result.size();
      for (std::size_t i = begin; i < end; ++i) {
        const Action& action = actions[i];
        if (!uses(edge, action) || seen[action.microbatch]) continue;
        seen[action.microbatch] = true;
        result.push_back({action.microbatch, i, compounds});
      }
      if (result.size() > before) ++compounds;
      begin = end;
    }
    return result;
  }

  /// Returns the actor's first action that starts later than the action at `place`; for the same
  /// actor, that action itself.
  std::size_t first_starting_after(const ActionPlace& place, int actor) const {
    if (std::cmp_equal(actor, place.actor)) return place.index;
    const std::vector<double>& starts = starts_[actor];
    return std::ranges::upper_bound(starts, starts_[place.actor][place.index]) - starts.begin();
  }

  const Partition& partition_;
  const Schedule& schedule_;
  const ActorsOfMeshes& actors_;
  const ActionHistory& history_;
  std::vector<std::vector<double>> starts_;  ///< Start times, by actor and index; ascending.
  IndexedVector<MeshId, std::map<std::pair<StageId, Pass>, std::set<LocalId>>> reads_;
};

}  // namespace

std::vector<Lane> plan_lanes(const Partition& partition, const Schedule& schedule,
                             const ActorsOfMeshes& actors, const ActionHistory& history,
                             const std::vector<OrderedAction>& order) {
  const LanePlanner planner(partition, schedule, actors, history, order);
  std::vector<Lane> lanes;
  for (const MeshEdge& edge : partition.edges) lanes.push_back(planner.plan(edge));
  return lanes;
}

}  // namespace weft::mesh
