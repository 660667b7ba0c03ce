#include "mesh/costs/measured_stage.h"

#include <optional>

#include "core/base/error.h"
#include "mesh/program/lanes.h"

namespace weft::mesh {

std::vector<MeasuredStage> measured_stages(const TrainingPlan& plan,
                                           std::span<const ActionTime> actions,
                                           Collectives collectives) {
  const double actors = static_cast<double>(plan.schedule.actors.size());
  std::vector<MeasuredStage> stages(plan.partition.mesh_of_stage.size());
  std::vector<int> found(plan.partition.num_schedule_stages(), 0);
  for (const ActionTime& time : actions) {
    const Action action{time.stage, time.kind, 0, false};
    const std::optional<StageId> stage = stage_of(plan.partition, action);
    if (!stage || stage->value() >= static_cast<int>(stages.size())) continue;
    MeasuredStage& measured = stages[stage->value()];
    const double seconds =
        time.seconds + (collectives == Collectives::kIncluded ? time.collective_seconds : 0);
    switch (time.kind) {
      case ActionKind::kForward: measured.forward = seconds; break;
      case ActionKind::kInputGrad: measured.input_grad = seconds; break;
      case ActionKind::kWeightGrad: measured.weight_grad = seconds; break;
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
                "schedule '{}' does not measure F, I and W of stage {} apart", plan.schedule.name,
                stage);
  }
  return stages;
}

void require_measured(const TrainingPlan& plan, std::span<const MeasuredStage> measured) {
  const std::size_t stages = plan.partition.mesh_of_stage.size();
  if (measured.size() == stages) return;
  throw_error(ErrorCode::kInvalidArgument, "{} stages were measured, but there are {}",
              measured.size(), stages);
}

}  // namespace weft::mesh
