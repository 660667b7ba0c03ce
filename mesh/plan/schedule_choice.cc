#include "mesh/plan/schedule_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "mesh/schedule/costs.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/search/search.h"

namespace weft::mesh {
namespace {

bool is_1f1b(std::string_view schedule) { return schedule == "1f1b" || schedule == "eager-1f1b"; }

/// Throws unless a named schedule has pairs of forwards and backwards, if the layout asks for them.
void check_cross(const ParallelConfig& layout, std::string_view schedule) {
  if (layout.duplex != Duplex::kCross) return;
  const auto fail = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidConfig, message).at("pipeline.duplex");
  };
  if (!is_1f1b(schedule) && schedule != "dualpipe-v")
    fail(
        fmt::format("cross goes with the schedules 1f1b, eager-1f1b and dualpipe-v, and with files "
                    "that have compounds, not with {}; take halves, or change pipeline.schedule",
                    schedule));
  const int stages = static_cast<int>(layout.stages.size());
  if (is_1f1b(schedule) && layout.microbatches < crossed_warm_up(stages))
    fail(
        fmt::format("cross of {} stages warms up with {} microbatches, but pipeline.microbatches "
                    "is {}; take at least {}, or halves",
                    stages, crossed_warm_up(stages), layout.microbatches, crossed_warm_up(stages)));
  if (layout.vocabulary == VocabularyMode::kInterlaced)
    fail("cross does not go with an interlaced vocabulary; take vocab-1 or vocab-2, or halves");
}

/// Returns the named schedule, with as many stages per mesh as the layout has. Throws unless stages
/// are placed as the schedule places them.
Schedule named_schedule_of(const ParallelConfig& layout, const VocabularyTimes& times) {
  const NamedSchedule& named = find_named_schedule(layout.schedule);
  check_cross(layout, named.name);
  const std::vector<int> mesh_of_stage = layout.mesh_of_stage();
  const int meshes = layout.meshes.size(), stages = mesh_of_stage.size();
  const int chunks = named.any_chunks && stages % meshes == 0 ? stages / meshes : named.chunks;
  const std::vector<int> placed = place_stages(named.placement, meshes, chunks);
  if (placed != actor_of_stage(layout)) {
    std::string wanted, found;
    for (const int actor : placed) {
      wanted += (wanted.empty() ? "" : ", ") + layout.meshes[actor].name;
    }
    for (const int mesh : mesh_of_stage) {
      found += (found.empty() ? "" : ", ") + layout.meshes[mesh].name;
    }
    throw Error(
        ErrorCode::kInvalidConfig,
        fmt::format("schedule '{}' puts {} on every mesh: list stages on the meshes {} in "
                    "this order, not {}, or choose another schedule",
                    named.name, chunks == 1 ? "one stage" : fmt::format("{} stages", chunks),
                    wanted, found))
        .at("pipeline.stages");
  }
  ScheduleRequest request{std::string(named.name), meshes, layout.microbatches, chunks, 0};
  request.vocabulary = layout.vocabulary;
  request.vocabulary_times = times;
  if (layout.vocabulary == VocabularyMode::kInterlaced && named.name != "1f1b") {
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("interlaced goes with the schedule 1f1b, not with {}; take "
                            "vocab-1 or vocab-2, or change pipeline.schedule",
                            named.name))
        .at("pipeline.vocabulary");
  }
  if (layout.duplex == Duplex::kCross && is_1f1b(named.name))
    return with_vocabulary(make_crossed_1f1b(stages, layout.microbatches), layout.vocabulary,
                           times);
  return make_schedule(request);
}

/// Returns the schedule as the layout's Duplex has it.
Schedule with_duplex(Schedule schedule, Duplex duplex) {
  if (duplex == Duplex::kHalves) return with_halves(schedule);
  return duplex == Duplex::kCross ? std::move(schedule) : without_compounds(std::move(schedule));
}

/// Replaces each B by I, then W.
Schedule with_split_backwards(Schedule schedule) {
  bool any = false;
  for (std::vector<Action>& actions : schedule.actors) {
    std::vector<Action> split;
    for (const Action& action : actions) {
      split.push_back(action);
      if (action.kind != ActionKind::kBackward) continue;
      any = true;
      split.back().kind = ActionKind::kInputGrad;
      split.push_back({action.stage, ActionKind::kWeightGrad, action.microbatch});
    }
    actions = std::move(split);
  }
  if (any) schedule.name += " with I and W apart";
  return schedule;
}

/// Returns the schedule of least memory: a microbatch begins when the previous one is done.
Schedule sequential_schedule(const std::vector<int>& actor_of_stage, int microbatches) {
  Schedule schedule;
  schedule.name = "one microbatch after the other";
  schedule.stages = actor_of_stage.size();
  schedule.microbatches = microbatches;
  schedule.actor_of_stage = actor_of_stage;
  schedule.actors.resize(num_actors(actor_of_stage));
  const auto actions = [&](int stage) -> std::vector<Action>& {
    return schedule.actors[actor_of_stage[stage]];
  };
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      actions(stage).push_back({stage, ActionKind::kForward, microbatch});
    }
    for (int stage = schedule.stages - 1; stage >= 0; --stage) {
      actions(stage).push_back({stage, ActionKind::kInputGrad, microbatch});
      actions(stage).push_back({stage, ActionKind::kWeightGrad, microbatch});
    }
  }
  return schedule;
}

std::vector<Schedule> schedules_to_measure(const ParallelConfig& layout,
                                           std::span<const StageEdge> edges,
                                           const VocabularyTimes& times) {
  const std::vector<int> placement = actor_of_stage(layout);
  const int stages = placement.size(), actors = layout.meshes.size();
  std::vector<Schedule> result;
  for (const char* name : {"zb-h1", "1f1b", "zb-v", "v-half", "v-min", "interleaved-1f1b"}) {
    const NamedSchedule& named = find_named_schedule(name);
    const int chunks = named.any_chunks && stages % actors == 0 ? stages / actors : named.chunks;
    if (place_stages(named.placement, actors, chunks) != placement) continue;
    ScheduleRequest request{name, actors, layout.microbatches, chunks, 0};
    result.push_back(
        with_vocabulary(with_split_backwards(make_schedule(request)), layout.vocabulary, times));
  }
  if (result.empty()) {
    // No named schedule places stages like this.
    SearchRequest request;
    request.actor_of_stage = placement;
    request.microbatches = layout.microbatches;
    request.costs = uniform_costs(stages, {});
    request.costs.edges.clear();
    for (const StageEdge& edge : edges) request.costs.edges.push_back({edge, 0.25, 0.25});
    request.budget = 100'000;
    result.push_back(search_schedule(request).schedule);
    result.back().name = "list scheduling";
  }
  result.push_back(with_vocabulary(sequential_schedule(placement, layout.microbatches),
                                   layout.vocabulary, times));
  return result;
}

/// Returns the schedules of candidate_schedules() before the layout's Duplex applies.
std::vector<Schedule> plain_schedules(const ParallelConfig& layout,
                                      std::span<const StageEdge> edges,
                                      const VocabularyTimes& times) {
  if (!layout.own_schedule) {
    if (layout.schedule == ParallelConfig::kAuto) {
      check_cross(layout, layout.schedule);
      return schedules_to_measure(layout, edges, times);
    }
    return {named_schedule_of(layout, times)};
  }
  const Schedule& own = *layout.own_schedule;
  if (own.microbatches != layout.microbatches) {
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("schedule '{}' is for {} microbatches, but pipeline.microbatches is {}",
                            own.name, own.microbatches, layout.microbatches))
        .at("pipeline.schedule");
  }
  const auto stages = static_cast<int>(layout.stages.size());
  if (own.stages != stages) {
    throw Error(ErrorCode::kInvalidConfig,
                fmt::format("schedule '{}' is for {} stages, but pipeline.stages lists {}; weft "
                            "schedule show NAME --stages {} --microbatches {} --csv prints one",
                            own.name, own.stages, stages, stages, layout.microbatches))
        .at("pipeline.schedule");
  }
  if (layout.vocabulary != VocabularyMode::kLast) require_vocabulary(own, layout.vocabulary);
  return {own};
}

}  // namespace

std::vector<int> actor_of_stage(const ParallelConfig& layout) {
  std::vector<int> actor_of_mesh(layout.meshes.size(), -1), result;
  int next = 0;
  for (const int mesh : layout.mesh_of_stage()) {
    int& actor = actor_of_mesh[mesh];
    if (actor < 0) actor = next++;
    result.push_back(actor);
  }
  return result;
}

Schedule schedule_before_duplex(const TrainingPlan& plan) {
  return plan.layout.duplex == Duplex::kHalves ? without_halves(plan.schedule) : plan.schedule;
}

std::vector<Schedule> candidate_schedules(const ParallelConfig& layout,
                                          std::span<const StageEdge> edges,
                                          const VocabularyTimes& times) {
  std::vector<Schedule> result;
  for (Schedule& schedule : plain_schedules(layout, edges, times)) {
    result.push_back(with_duplex(std::move(schedule), layout.duplex));
    if (layout.duplex != Duplex::kCross || has_compounds(result.back())) continue;
    throw Error(
        ErrorCode::kInvalidConfig,
        fmt::format("schedule '{}' of {} microbatch{} has no compounds, such as (0F3;0B1), "
                    "that cross could interleave; take more microbatches, or halves or off",
                    result.back().name, layout.microbatches, layout.microbatches == 1 ? "" : "es"))
        .at("pipeline.duplex");
  }
  return result;
}

}  // namespace weft::mesh
