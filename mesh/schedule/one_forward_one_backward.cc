// GPipe (Huang et al., 2019), 1F1B (Narayanan et al., 2021) and eager-1F1B (Zhuang et al., MLSys
// 2023): one stage per actor. They differ in the number of forwards before the first backward.
#include <algorithm>

#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

/// Returns one stage's actions: `warm_up` forwards, then backward and forward in turn, then the
/// remaining backwards.
std::vector<Action> one_stage(int stage, int microbatches, int warm_up) {
  std::vector<Action> actions;
  warm_up = std::min(warm_up, microbatches);
  for (int i = 0; i < warm_up; ++i) actions.push_back({stage, ActionKind::kForward, i});
  for (int i = 0; i < microbatches; ++i) {
    actions.push_back({stage, ActionKind::kBackward, i});
    if (warm_up + i < microbatches) actions.push_back({stage, ActionKind::kForward, warm_up + i});
  }
  return actions;
}

Schedule with_warm_up(const ScheduleRequest& request,
                      int (*warm_up)(int distance, int microbatches)) {
  Schedule schedule = empty_schedule(request, StagePlacement::kOnePerActor);
  for (int stage = 0; stage < request.actors; ++stage) {
    schedule.actors[stage] = one_stage(stage, request.microbatches,
                                       warm_up(request.actors - stage, request.microbatches));
  }
  return schedule;
}

}  // namespace

Schedule make_gpipe(const ScheduleRequest& request) {
  return with_warm_up(request, [](int, int microbatches) { return microbatches; });
}

Schedule make_1f1b(const ScheduleRequest& request) {
  return with_warm_up(request, [](int distance, int) { return distance; });
}

Schedule make_eager_1f1b(const ScheduleRequest& request) {
  return with_warm_up(request, [](int distance, int) { return 2 * distance - 1; });
}

Schedule make_forward_schedule(int stages, int microbatches) {
  Schedule schedule = make_schedule("gpipe", stages, microbatches);
  schedule.name = "forward";
  for (std::vector<Action>& actions : schedule.actors) {
    std::erase_if(actions,
                  [](const Action& action) { return action.kind != ActionKind::kForward; });
  }
  return schedule;
}

}  // namespace weft::mesh
