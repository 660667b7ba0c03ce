#include "mesh/schedule/duplex.h"

#include <algorithm>

#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {
namespace {

constexpr std::string_view kInHalves = " in halves";

}  // namespace

std::string_view to_string(Duplex duplex) {
  switch (duplex) {
    case Duplex::kOff: return "off";
    case Duplex::kHalves: return "halves";
    case Duplex::kCross: return "cross";
    case Duplex::kAuto: return "auto";
  }
  return "";
}

std::vector<Duplex> duplex_choices() {
  return {Duplex::kOff, Duplex::kHalves, Duplex::kCross, Duplex::kAuto};
}

Schedule without_compounds(Schedule schedule) {
  for (std::vector<Action>& actions : schedule.actors)
    for (Action& action : actions) action.joins_previous = false;
  return schedule;
}

Schedule with_halves(const Schedule& schedule) {
  Schedule halves = schedule;
  halves.name += kInHalves;
  halves.microbatches *= 2;
  for (std::vector<Action>& actions : halves.actors) {
    std::vector<Action> doubled;
    for (Action action : actions) {
      action.joins_previous = false;
      if (!has_microbatch(action.kind)) {
        doubled.push_back(action);
        continue;
      }
      action.microbatch *= 2;
      doubled.push_back(action);
      ++action.microbatch;
      action.joins_previous = !is_vocabulary_pass(action.kind);
      doubled.push_back(action);
    }
    actions = std::move(doubled);
  }
  return halves;
}

Schedule without_halves(Schedule schedule) {
  if (schedule.name.ends_with(kInHalves))
    schedule.name.resize(schedule.name.size() - kInHalves.size());
  schedule.microbatches /= 2;
  for (std::vector<Action>& actions : schedule.actors) {
    erase_actions(actions, [](const Action& action) {
      return has_microbatch(action.kind) && action.microbatch % 2 != 0;
    });
    for (Action& action : actions)
      if (has_microbatch(action.kind)) action.microbatch /= 2;
  }
  return schedule;
}

Schedule make_crossed_1f1b(int stages, int microbatches) {
  Schedule schedule;
  schedule.name = "crossed 1f1b";
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  schedule.actor_of_stage = place_stages(StagePlacement::kOnePerActor, stages, 1);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Action>& actions = schedule.actors.emplace_back();
    const int warm_up = std::min(crossed_warm_up(stages - stage), microbatches);
    for (int i = 0; i < warm_up; ++i) actions.push_back({stage, ActionKind::kForward, i});
    for (int i = 0; i < microbatches; ++i) {
      const bool pairs = warm_up + i < microbatches;
      if (pairs) actions.push_back({stage, ActionKind::kForward, warm_up + i});
      actions.push_back({stage, ActionKind::kBackward, i, pairs});
    }
  }
  return schedule;
}

}  // namespace weft::mesh
