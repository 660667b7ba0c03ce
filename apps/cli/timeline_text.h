#pragma once

#include <string>

#include "apps/cli/schedule_query.h"

namespace weft::apps {

struct TimelineStyle {
  int columns = 120;    ///< Width of the screen.
  bool colour = false;  ///< ANSI colours; otherwise the fill character shows the kind.
};

/// Draws a step in characters: a row per actor, and below them a row per actor for its memory.
///
///   0  F0-F1-F2-F3-         B0====F4-B1==== ...
///   1     F0-F1-F2-   B0====F3-B1====
///   memory, of 4
///   0  ▂▂▂▄▄▄▆▆▆███████████████
std::string draw_timeline(const ScheduleCase& one, const mesh::ScheduleSimulation& simulation,
                          const TimelineStyle& style);

}  // namespace weft::apps
