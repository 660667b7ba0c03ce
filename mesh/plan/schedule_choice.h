#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mesh/plan/layout_config.h"
#include "mesh/schedule/schedule.h"

namespace weft::mesh {

/// The layout's meshes as actors, numbered in the order of their first stages, as schedules number
/// them: one entry per stage.
std::vector<int> actor_of_stage(const LayoutConfig& layout);

/// The schedules that a run of this layout may begin with, the best first; the first whose programs
/// fit in memory is taken. Its own one, or the named one, alone. For `auto` such as run I and W
/// apart, so that both can be measured: the named one of this placement (zb-h1, zb-v,
/// interleaved-1f1b), then less and less memory, down to one microbatch after the other. `edges`
/// join the stages; `times` order the passes of a shared vocabulary. Throws Error(kInvalidConfig)
/// unless the stages lie as the named schedule places them.
std::vector<Schedule> schedules_to_begin_with(const LayoutConfig& layout,
                                              std::span<const StageEdge> edges,
                                              const VocabularyTimes& times = {});

}  // namespace weft::mesh
