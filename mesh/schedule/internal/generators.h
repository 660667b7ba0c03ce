#pragma once

#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {

// Generators, one per name. The counts of a request are at least 1 and its `chunks` is set.

Schedule make_gpipe(const ScheduleRequest& request);
Schedule make_1f1b(const ScheduleRequest& request);
Schedule make_eager_1f1b(const ScheduleRequest& request);
Schedule make_interleaved_1f1b(const ScheduleRequest& request);
Schedule make_breadth_first(const ScheduleRequest& request);
Schedule make_zb_h1(const ScheduleRequest& request);
Schedule make_zb_h2(const ScheduleRequest& request);
Schedule make_zb_v(const ScheduleRequest& request);
Schedule make_v_half(const ScheduleRequest& request);
Schedule make_v_min(const ScheduleRequest& request);
Schedule make_dualpipe_v(const ScheduleRequest& request);

/// Returns 1F1B with an interlaced vocabulary.
Schedule make_interlaced(const ScheduleRequest& request);

/// Throws Error(kInvalidArgument), because a vocabulary is split over at least two actors.
[[noreturn]] void throw_single_actor(std::string_view schedule);

/// Returns a schedule with stages placed and no actions.
Schedule empty_schedule(const ScheduleRequest& request, StagePlacement placement);

/// Removes all microbatches from `microbatches` on. A valid schedule stays valid, as no action
/// loses a dependency.
Schedule truncate_microbatches(Schedule schedule, int microbatches);

}  // namespace weft::mesh
