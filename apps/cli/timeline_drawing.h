#pragma once

#include <vector>

#include "apps/cli/schedule_query.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws one step of each schedule, one below the other, on a common time axis. Each actor has a
/// row of its actions with thin lines for arriving tensors. Below are rows of the memory that each
/// actor holds, with its limit.
Svg draw_schedules(const std::vector<ScheduleCase>& cases,
                   const std::vector<mesh::ScheduleSimulation>& simulations);

}  // namespace weft::apps
