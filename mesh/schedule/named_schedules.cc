#include "mesh/schedule/named_schedules.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "mesh/schedule/internal/generators.h"

namespace weft::mesh {
namespace {

constexpr NamedSchedule kSchedules[] = {
    {"gpipe", "all forwards, then all backwards", StagePlacement::kOnePerActor, 1, false,
     make_gpipe},
    {"1f1b", "actor i warms up with p-1-i forwards, then one forward, one backward",
     StagePlacement::kOnePerActor, 1, false, make_1f1b},
    {"eager-1f1b", "warms up with min(m, 2(p-i)-1) forwards, so that transfers hide",
     StagePlacement::kOnePerActor, 1, false, make_eager_1f1b},
    {"interleaved-1f1b", "1f1b over v stages per actor, microbatches in groups",
     StagePlacement::kLooped, 2, true, make_interleaved_1f1b},
    {"breadth-first", "v stages per actor, each takes all microbatches before the next begins",
     StagePlacement::kLooped, 2, true, make_breadth_first},
    {"zb-h1",
     "1f1b with W split off and delayed into the bubble; memory of 1f1b's first actor on all",
     StagePlacement::kOnePerActor, 1, true, make_zb_h1},
    {"zb-h2", "more forwards in flight (2p-1), W fills every gap: no bubble but the start",
     StagePlacement::kOnePerActor, 1, false, make_zb_h2},
    {"zb-v", "two stages per actor in a V, W split off; memory of 1f1b, no bubble at F = I = W",
     StagePlacement::kVShaped, 2, false, make_zb_v},
    {"v-half", "the V with half of 1f1b's memory", StagePlacement::kVShaped, 2, false, make_v_half},
    {"v-min", "the V with a third of 1f1b's memory", StagePlacement::kVShaped, 2, false,
     make_v_min},
    {"dualpipe-v", "the V with forwards and backwards of the two stages in pairs that may overlap",
     StagePlacement::kVShaped, 2, false, make_dualpipe_v},
};

}  // namespace

std::span<const NamedSchedule> named_schedules() { return kSchedules; }

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : kSchedules) names.emplace_back(schedule.name);
  return names;
}

std::vector<std::string> one_stage_schedule_names() {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : kSchedules) {
    if (schedule.chunks == 1) names.emplace_back(schedule.name);
  }
  return names;
}

const NamedSchedule& find_named_schedule(std::string_view name) {
  const auto* found = std::ranges::find(kSchedules, name, &NamedSchedule::name);
  if (found != std::end(kSchedules)) return *found;
  const std::vector<std::string> names = schedule_names();
  throw_error(ErrorCode::kInvalidArgument, "there is no schedule '{}'{}; the schedules are {}",
              name, did_you_mean(name, names), fmt::join(names, ", "));
}

std::vector<int> place_stages(StagePlacement placement, int actors, int chunks) {
  std::vector<int> actor_of_stage;
  for (int stage = 0; stage < actors * chunks; ++stage) {
    const int at = stage % actors;
    const bool backwards = placement == StagePlacement::kVShaped && stage / actors % 2 == 1;
    actor_of_stage.push_back(backwards ? actors - 1 - at : at);
  }
  return actor_of_stage;
}

Schedule make_schedule(const ScheduleRequest& request) {
  const NamedSchedule& named = find_named_schedule(request.name);
  if (request.actors < 1 || request.microbatches < 1) {
    throw_error(ErrorCode::kInvalidArgument,
                "a schedule needs at least 1 actor and 1 microbatch, got {} and {}", request.actors,
                request.microbatches);
  }
  if (request.chunks < 0 || request.group < 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "stages per actor and microbatches per group are at least 1, or 0 for the default, "
                "got {} and {}",
                request.chunks, request.group);
  }
  ScheduleRequest full = request;
  if (full.chunks == 0) full.chunks = named.chunks;
  if (full.chunks != named.chunks && !named.any_chunks) {
    throw_error(ErrorCode::kInvalidArgument, "schedule '{}' puts {} {} on each actor, not {}",
                named.name, named.chunks, named.chunks == 1 ? "stage" : "stages", full.chunks);
  }
  if (full.vocabulary != VocabularyMode::kInterlaced)
    return with_vocabulary(named.make(full), full.vocabulary, full.vocabulary_times);
  if (named.name != "1f1b") {
    throw_error(
        ErrorCode::kInvalidArgument,
        "an interlaced vocabulary goes with the schedule 1f1b, not with {}; take vocab-1 or "
        "vocab-2",
        named.name);
  }
  return make_interlaced(full);
}

Schedule make_schedule(std::string_view name, int stages, int microbatches) {
  const NamedSchedule& named = find_named_schedule(name);
  if (stages % named.chunks != 0) {
    throw_error(ErrorCode::kInvalidArgument,
                "schedule '{}' puts {} stages on each actor, so {} stages cannot be divided", name,
                named.chunks, stages);
  }
  return make_schedule({std::string(name), stages / named.chunks, microbatches, 0, 0});
}

Schedule empty_schedule(const ScheduleRequest& request, StagePlacement placement) {
  Schedule schedule;
  schedule.name = request.name;
  schedule.stages = request.actors * request.chunks;
  schedule.microbatches = request.microbatches;
  schedule.actor_of_stage = place_stages(placement, request.actors, request.chunks);
  schedule.actors.resize(request.actors);
  return schedule;
}

Schedule truncate_microbatches(Schedule schedule, int microbatches) {
  for (std::vector<Action>& actions : schedule.actors)
    erase_actions(actions, [&](const Action& action) { return action.microbatch >= microbatches; });
  schedule.microbatches = microbatches;
  return schedule;
}

}  // namespace weft::mesh
