#include "mesh/schedule/costs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"

namespace weft::mesh {

double late_reduction(const StageCosts& stage) {
  if (stage.listed_late_reduction) return *stage.listed_late_reduction;
  const int microbatches = stage.reduced_microbatches;
  const double parts = static_cast<double>(stage.reduced_layers) * microbatches;
  // The first part starts when the first layer's gradient is complete.
  const double hidden = microbatches * (stage.input_grad + stage.weight_grad) * (parts - 1) / parts;
  return std::max(stage.reduce_grad * stage.last_layer_share / microbatches,
                  stage.reduce_grad - hidden);
}

std::vector<StageEdge> ScheduleCosts::stage_edges() const {
  std::vector<StageEdge> result;
  for (const EdgeCosts& one : edges) result.push_back(one.edge);
  return result;
}

double duration(const ScheduleCosts& costs, const Action& action) {
  const StageCosts& stage = costs.stages[action.stage];
  const double again = stage.recomputes ? stage.recompute : 0;
  const double time = [&] {
    switch (action.kind) {
      case ActionKind::kForward: return stage.forward;
      case ActionKind::kBackward:
        return again + stage.input_grad + stage.weight_grad - stage.hidden;
      case ActionKind::kInputGrad: return again + stage.input_grad;
      case ActionKind::kWeightGrad: return stage.weight_grad;
      case ActionKind::kRecompute: return stage.recompute;
      case ActionKind::kVocabularyScores: return stage.vocabulary_scores;
      case ActionKind::kVocabularyGrads: return stage.vocabulary_grads;
      case ActionKind::kInputForward: return stage.input_forward;
      case ActionKind::kInputBackward: return stage.input_backward;
      case ActionKind::kReduceGrad: return stage.reduce_grad;
      case ActionKind::kOptimizer: return stage.optimizer;
    }
    return 0.0;
  }();
  return costs.dispatch_time + time;
}

CompoundMembers compound_members(std::span<const Action> actions) {
  std::vector<int> seen;
  CompoundMembers members;
  for (const Action& action : actions) {
    auto number = std::ranges::find(seen, action.microbatch);
    if (number == seen.end()) number = seen.insert(seen.end(), action.microbatch);
    members.push_back({action.stage, action.kind, static_cast<int>(number - seen.begin())});
  }
  return members;
}

const CompoundCosts* find_compound(const ScheduleCosts& costs, std::span<const Action> members) {
  if (members.size() < 2 || costs.compounds.empty()) return nullptr;
  const auto known = costs.compounds.find(compound_members(members));
  return known != costs.compounds.end() ? &known->second : nullptr;
}

double time_until(const StageCosts& stage, ActionKind kind, double work, double weights) {
  const double again = stage.recomputes ? stage.recompute : 0;
  switch (kind) {
    case ActionKind::kForward: return work * stage.forward;
    case ActionKind::kInputGrad: return again + work * stage.input_grad;
    case ActionKind::kBackward:
      return again + work * stage.input_grad + weights * (stage.weight_grad - stage.hidden);
    default: return weights * stage.weight_grad;
  }
}

namespace {

/// Returns the costs of a microbatch's actions, without vocabulary passes.
std::array<double*, 8> action_costs(StageCosts& stage) {
  return {
      &stage.forward,   &stage.input_grad,  &stage.weight_grad,     &stage.hidden,
      &stage.recompute, &stage.activations, &stage.for_weight_grad, &stage.retained_for_recompute};
}

}  // namespace

void scale_microbatch(ScheduleCosts& costs, double factor) {
  for (StageCosts& stage : costs.stages) {
    for (double* value : action_costs(stage)) *value *= factor;
    for (double* value :
         {&stage.vocabulary_scores, &stage.vocabulary_grads, &stage.input_forward,
          &stage.input_backward, &stage.score_memory, &stage.partial_held, &stage.embedded_held})
      *value *= factor;
  }
  for (EdgeCosts& edge : costs.edges) {
    edge.forward *= factor;
    edge.backward *= factor;
    edge.edge.bytes =
        static_cast<std::uint64_t>(std::llround(factor * static_cast<double>(edge.edge.bytes)));
  }
  costs.vocabulary_tensor *= factor;
  costs.vocabulary_exchange *= factor;
  costs.compounds.clear();
}

ScheduleCosts split_stages(const ScheduleCosts& costs, int chunks) {
  if (chunks < 1)
    throw_error(ErrorCode::kInvalidArgument,
                "a stage cannot be split into {} parts; expected at least 1", chunks);
  if (chunks == 1) return costs;
  // Part k of the new stages is part k / chunks of the old ones: layers stay in order, and an
  // actor's work is the mean of its parts.
  ScheduleCosts result = costs;
  result.stages.clear();
  result.compounds.clear();
  const double part = 1.0 / chunks;
  for (const StageCosts& stage : costs.stages) {
    StageCosts share = stage;
    for (double* value : action_costs(share)) *value *= part;
    share.reduce_grad *= part;
    share.optimizer *= part;
    if (share.listed_late_reduction) *share.listed_late_reduction *= part;
    result.stages.insert(result.stages.end(), chunks, share);
  }
  result.edges.clear();
  EdgeCosts chain;
  for (const EdgeCosts& one : costs.edges) {
    if (one.edge.to != one.edge.from + 1) {
      // A skip edge leaves the last part of its stage and enters the first part of the other.
      result.edges.push_back(
          {{(one.edge.from + 1) * chunks - 1, one.edge.to * chunks, one.edge.bytes},
           one.forward,
           one.backward});
      continue;
    }
    chain.edge.bytes = std::max(chain.edge.bytes, one.edge.bytes);
    chain.forward = std::max(chain.forward, one.forward);
    chain.backward = std::max(chain.backward, one.backward);
  }
  for (const StageEdge& edge : chain_edges(result.stages.size(), chain.edge.bytes)) {
    result.edges.push_back({edge, chain.forward, chain.backward});
  }
  return result;
}

VocabularyTimes vocabulary_times(const ScheduleCosts& costs, std::span<const int> actor_of_stage) {
  const double actors = num_actors(actor_of_stage);
  VocabularyTimes times{0, 0, 0, 0, 0, 0};
  std::vector<bool> named(num_actors(actor_of_stage), false);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& one = costs.stages[stage];
    times.forward += one.forward / actors;
    times.input_grad += (one.input_grad + (one.recomputes ? one.recompute : 0)) / actors;
    times.weight_grad += one.weight_grad / actors;
    // The actor's lowest stage carries the costs of its passes.
    if (named[actor_of_stage[stage]]) continue;
    named[actor_of_stage[stage]] = true;
    times.scores += one.vocabulary_scores / actors;
    times.grads += one.vocabulary_grads / actors;
    times.input += (one.input_forward + one.input_backward) / 2 / actors;
  }
  for (const EdgeCosts& edge : costs.edges)
    times.transfer = std::max({times.transfer, edge.forward, edge.backward});
  // The tensor may share its links with a tensor between stages.
  times.vocabulary_transfer = costs.vocabulary_tensor + costs.vocabulary_exchange + times.transfer;
  times.min_transfer = times.forward / 4;
  return times;
}

int ScheduleCosts::num_nics() const {
  return nic_of_actor.empty() ? 0 : *std::ranges::max_element(nic_of_actor) + 1;
}

void require_stage_costs(const Schedule& schedule, const ScheduleCosts& costs) {
  if (std::ssize(costs.stages) == schedule.stages) return;
  throw_error(ErrorCode::kInvalidArgument,
              "schedule '{}' has {} stages, but costs are given for {}", schedule.name,
              schedule.stages, costs.stages.size());
}

ScheduleCosts uniform_costs(int stages, const StageCosts& stage, double transfer) {
  ScheduleCosts costs;
  costs.stages.assign(stages, stage);
  for (const StageEdge& edge : chain_edges(stages))
    costs.edges.push_back({edge, transfer, transfer});
  return costs;
}

}  // namespace weft::mesh
