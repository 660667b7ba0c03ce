#include "mesh/costs/measured_stage_times.h"

#include <optional>
#include <variant>

#include "core/base/error.h"
#include "mesh/program/lanes.h"
#include "mesh/program/step_order.h"

namespace weft::mesh {

namespace {

/// Returns the share, by FLOPs, of a stage's backward that is input gradient. R counts as input
/// gradient if the stage recomputes.
double input_grad_share(const TrainingPlan& plan, StageId stage) {
  const MeshPartition& part = plan.partition.per_mesh[plan.partition.mesh_of_stage[stage]];
  double input_grad = 0, weight_grad = 0;
  const auto add = [&](std::size_t index, double& sum) {
    if (const auto* compute = std::get_if<ComputeStep>(&part.steps[index].what))
      sum += nominal_seconds(plan.partition.graph, plan.partition.graph.node(compute->node));
  };
  for (std::size_t i = 0; i < part.steps.size(); ++i) {
    const Step& step = part.steps[i];
    if (step.stage != stage || step.pass == Pass::kForward) continue;
    add(i, step.pass == Pass::kInputGrad ? input_grad : weight_grad);
  }
  if (plan.layout.stages[stage.value()].recompute)
    for (const std::size_t step : recompute_steps(part, stage)) add(step, input_grad);
  const double all = input_grad + weight_grad;
  return all > 0 ? input_grad / all : 0;
}

}  // namespace

std::vector<MeasuredStageTimes> measured_stages(const TrainingPlan& plan,
                                                std::span<const ActionTime> actions,
                                                CollectiveTime collectives) {
  const double actors = static_cast<double>(plan.schedule.actors.size());
  std::vector<MeasuredStageTimes> stages(plan.partition.mesh_of_stage.size());
  std::vector<int> found(plan.partition.num_schedule_stages(), 0);
  for (const ActionTime& time : actions) {
    const Action action{time.stage, time.kind, 0, false};
    const std::optional<StageId> stage = stage_of(plan.partition, action);
    if (!stage || stage->value() >= static_cast<int>(stages.size())) continue;
    MeasuredStageTimes& measured = stages[stage->value()];
    const double seconds =
        time.seconds + (collectives == CollectiveTime::kIncluded ? time.collective_seconds : 0);
    switch (time.kind) {
      case ActionKind::kForward: measured.forward = seconds; break;
      case ActionKind::kInputGrad: measured.input_grad = seconds; break;
      case ActionKind::kWeightGrad: measured.weight_grad = seconds; break;
      case ActionKind::kBackward: {
        const double share = input_grad_share(plan, *stage);
        measured.input_grad = share * seconds;
        measured.weight_grad = (1 - share) * seconds;
        ++found[stage->value()];
        break;
      }
      case ActionKind::kVocabularyScores:
      case ActionKind::kInputForward: measured.forward += time.seconds / actors; continue;
      case ActionKind::kVocabularyGrads:
      case ActionKind::kInputBackward: measured.weight_grad += time.seconds / actors; continue;
      default: continue;
    }
    ++found[stage->value()];
  }
  for (std::size_t stage = 0; stage < found.size(); ++stage) {
    if (found[stage] == 3) continue;
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}': no measured times of F and B, or of F, I and W, for stage {}",
                plan.schedule.name, stage);
  }
  return stages;
}

void require_measured(const TrainingPlan& plan, std::span<const MeasuredStageTimes> measured) {
  const std::size_t stages = plan.partition.mesh_of_stage.size();
  if (measured.size() == stages) return;
  throw_error(ErrorCode::kInvalidArgument, "{} stages were measured, but there are {}",
              measured.size(), stages);
}

}  // namespace weft::mesh
