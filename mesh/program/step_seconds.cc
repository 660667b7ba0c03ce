#include "mesh/program/step_seconds.h"

#include <algorithm>
#include <variant>

#include "transfer/flow/simulate.h"

namespace weft::mesh {

StepDuration StepSeconds::of(const Step& step) {
  if (const auto* compute = std::get_if<ComputeStep>(&step.what))
    return {compute_seconds(*compute), 0};
  const auto& [input, output, move] = std::get<MoveStep>(step.what);
  const TensorType& type = partition_.graph.value(part_.locals[input].value).type;
  const auto known = std::ranges::find_if(moves_, [&, &wanted = move](const KnownMove& one) {
    return one.type == type && one.move == wanted;
  });
  if (known != moves_.end()) return known->duration;
  const StepDuration duration = simulated(plan_move(type, move, mesh_, topology_));
  moves_.push_back({type, move, duration});
  return duration;
}

StepDuration StepSeconds::all_reduce(const TensorType& type, const std::vector<int>& axes) {
  const auto [found, is_new] = all_reduces_.try_emplace({axes, type.bytes()}, StepDuration());
  if (is_new) found->second = simulated(plan_all_reduce(type, axes, mesh_, topology_));
  return found->second;
}

TensorType StepSeconds::local_type(LocalId id, int rank) const {
  const TensorType& type = partition_.graph.value(part_.locals[id].value).type;
  return {type.dtype, local_shape(type.shape, part_.locals[id].spec, mesh_, rank)};
}

double StepSeconds::compute_seconds(const ComputeStep& step) const {
  double slowest = 0;
  std::vector<TensorType> inputs, others;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    inputs.clear();
    for (const LocalId input : step.inputs) inputs.push_back(local_type(input, rank));
    if (rank > 0 && inputs == others) continue;
    slowest = std::max(slowest, op_seconds_(partition_.graph.node(step.node).op, inputs));
    others = inputs;
  }
  return slowest;
}

StepDuration StepSeconds::simulated(const std::vector<GroupPlan>& groups) const {
  std::vector<transfer::Flow> flows;
  for (const GroupPlan& group : groups) {
    const auto& own = std::visit(
        [](const auto& of) -> const std::vector<transfer::Flow>& { return of.flows; }, group.plan);
    for (transfer::Flow flow : own) {
      flow.id = transfer::FlowId(flows.size());
      flows.push_back(std::move(flow));
    }
  }
  const double all = transfer::simulate(flows, topology_, network_).seconds;
  transfer::Network without_latency = network_;
  without_latency.hop_seconds = 0;
  const double moving = transfer::simulate(flows, topology_, without_latency).seconds;
  return {moving, std::max(all - moving, 0.0)};
}

}  // namespace weft::mesh
