#include "mesh/costs/internal/stage_timeline.h"

#include <algorithm>

#include "mesh/program/move_plans.h"
#include "mesh/program/step_order.h"
#include "transfer/flow/simulate.h"

namespace weft::mesh {
namespace {

/// Returns the seconds until the last group is done when all groups start together.
double simulated_seconds(const TrainingPlan& plan, const std::vector<GroupPlan>& groups) {
  std::vector<transfer::Flow> flows;
  for (const GroupPlan& group : groups) {
    const auto& own = std::visit(
        [](const auto& of) -> const std::vector<transfer::Flow>& { return of.flows; }, group.plan);
    for (transfer::Flow flow : own) {
      flow.id = transfer::FlowId(flows.size());
      flows.push_back(std::move(flow));
    }
  }
  return transfer::simulate(flows, plan.topology, plan.network).seconds;
}

class StepTimer {
 public:
  StepTimer(const TrainingPlan& plan, MeshId mesh, const OpTimeModel& seconds)
      : plan_(plan),
        mesh_(plan.partition.meshes[mesh]),
        part_(plan.partition.per_mesh[mesh]),
        seconds_(seconds) {}

  double operator()(const Step& step) const {
    if (const auto* compute = std::get_if<ComputeStep>(&step.what))
      return compute_seconds(*compute);
    const auto& [input, output, move] = std::get<MoveStep>(step.what);
    const TensorType& type = plan_.partition.graph.value(local(input).value).type;
    const int times = local(output).once_per_step ? plan_.layout.microbatches : 1;
    return simulated_seconds(plan_, plan_move(type, move, mesh_, plan_.topology)) / times;
  }

 private:
  const LocalValue& local(LocalId id) const { return part_.locals[id]; }

  TensorType local_type(LocalId id, int rank) const {
    const TensorType& type = plan_.partition.graph.value(local(id).value).type;
    return {type.dtype, local_shape(type.shape, local(id).spec, mesh_, rank)};
  }

  double compute_seconds(const ComputeStep& step) const {
    double slowest = 0;
    std::vector<TensorType> inputs, others;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      inputs.clear();
      for (const LocalId input : step.inputs) inputs.push_back(local_type(input, rank));
      if (rank > 0 && inputs == others) continue;
      slowest = std::max(slowest, seconds_(plan_.partition.graph.node(step.node).op, inputs));
      others = inputs;
    }
    return slowest;
  }

  const TrainingPlan& plan_;
  const DeviceMesh& mesh_;
  const MeshPartition& part_;
  const OpTimeModel& seconds_;
};

}  // namespace

double all_reduce_seconds(const TrainingPlan& plan, const DeviceMesh& mesh,
                          const std::vector<int>& axes, const TensorType& type) {
  return simulated_seconds(plan, plan_all_reduce(type, axes, mesh, plan.topology));
}

std::vector<double> step_seconds(const TrainingPlan& plan, MeshId mesh,
                                 const OpTimeModel& seconds) {
  const StepTimer timer(plan, mesh, seconds);
  std::vector<double> result;
  for (const Step& step : plan.partition.per_mesh[mesh].steps) result.push_back(timer(step));
  return result;
}

StageTimeline stage_timeline(const Partition& partition, StageId stage, bool forward,
                             const std::vector<double>& seconds) {
  const MeshId mesh = partition.mesh_of_stage[stage];
  const MeshPartition& part = partition.per_mesh[mesh];
  StageTimeline line;
  int happened = 0;
  for (const std::size_t i :
       steps_of(part, stage, forward ? ActionKind::kForward : ActionKind::kBackward)) {
    const Step& step = part.steps[i];
    const bool weights = step.pass == Pass::kWeightGrad;
    ++happened;
    for (const LocalId input : inputs_of(step)) {
      line.first_use.try_emplace(input, TimelinePoint{line.work, line.weights, happened});
      bool& by_work = line.used_by_work[input];
      by_work = by_work || !weights;
    }
    (weights ? line.weights : line.work) += seconds[i];
    for (const LocalId output : outputs_of(step)) {
      for (std::size_t e = 0; e < partition.edges.size(); ++e) {
        const MeshEdge& edge = partition.edges[e];
        if (edge.from_mesh != mesh || edge.source != output) continue;
        line.sent[e] = {line.work, line.weights, ++happened};
      }
    }
  }
  return line;
}

}  // namespace weft::mesh
