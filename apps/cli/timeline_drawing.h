#pragma once

#include <vector>

#include "apps/cli/schedule_query.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// Draws one step of each schedule, one under the other over the same axis of time: a row per actor
/// with what it runs, thin lines for what arrives there, and under the rows the memory that each
/// actor holds, with its cap.
Svg draw_schedules(const std::vector<ScheduleCase>& cases,
                   const std::vector<mesh::ScheduleSimulation>& simulations);

}  // namespace weft::apps
