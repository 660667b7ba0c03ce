#include "mesh/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace weft::mesh {

std::string to_string(const Action& action) {
  static constexpr char kLetters[] = {'F', 'B', 'I', 'W'};
  return fmt::format("{}{}{}", action.stage, kLetters[static_cast<int>(action.kind)], action.microbatch);
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (std::size_t actor = 0; actor < schedule.actors.size(); ++actor) {
    text += fmt::format("actor {}:", actor);
    for (const Action& action : schedule.actors[actor]) text += " " + to_string(action);
    text += "\n";
  }
  return text;
}

namespace {

/// Forwards first, `warm_up` of them; then backward and forward in turn; then the backwards that are left.
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

Schedule empty_schedule(std::string name, int stages, int microbatches) {
  if (stages < 1 || microbatches < 1) {
    throw_error(ErrorCode::kInvalidArgument, "a schedule needs at least 1 stage and 1 microbatch, not {} and {}", stages,
                microbatches);
  }
  Schedule schedule{std::move(name), stages, microbatches, {}, {}};
  for (int stage = 0; stage < stages; ++stage) schedule.actor_of_stage.push_back(stage);
  return schedule;
}

}  // namespace

std::vector<std::string> schedule_names() { return {"gpipe", "1f1b", "eager-1f1b"}; }

Schedule make_schedule(std::string_view name, int stages, int microbatches) {
  Schedule schedule = empty_schedule(std::string(name), stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    int warm_up = 0;
    if (name == "gpipe") {
      warm_up = microbatches;
    } else if (name == "1f1b") {
      warm_up = stages - stage;
    } else if (name == "eager-1f1b") {
      warm_up = 2 * (stages - stage) - 1;
    } else {
      throw_error(ErrorCode::kInvalidArgument, "there is no schedule '{}'; the schedules are gpipe, 1f1b, eager-1f1b", name);
    }
    schedule.actors.push_back(one_stage(stage, microbatches, warm_up));
  }
  return schedule;
}

Schedule make_forward_schedule(int stages, int microbatches) {
  Schedule schedule = empty_schedule("forward", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    schedule.actors.emplace_back();
    for (int i = 0; i < microbatches; ++i) schedule.actors.back().push_back({stage, ActionKind::kForward, i});
  }
  return schedule;
}

}  // namespace weft::mesh
