#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mesh/plan/parallel_config.h"
#include "mesh/plan/training_plan.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// Returns each stage's actor. Actors are the layout's meshes, numbered in the order of their first
/// stages, as in schedules.
std::vector<int> actor_of_stage(const ParallelConfig& layout);

/// Returns the schedules with which a run of this layout may begin, best first; the first whose
/// programs fit in memory is used, with the layout's Duplex. A layout's own or named schedule is
/// the only candidate. `auto` has several, with separate I and W so that both can be measured: the
/// usual one of this placement (zb-h1, zb-v, interleaved-1f1b), then ones that need less and less
/// memory, down to one microbatch at a time. `edges`: between the stages. `times`: for ordering the
/// passes of a shared vocabulary. Throws Error(kInvalidConfig) unless stages are placed as the
/// named schedule places them.
std::vector<Schedule> candidate_schedules(const ParallelConfig& layout,
                                          std::span<const StageEdge> edges,
                                          const VocabularyTimes& times = {});

/// Returns the schedule that, as a layout's own one with the plan's Duplex, gives the same plan.
Schedule schedule_before_duplex(const TrainingPlan& plan);

}  // namespace weft::mesh
