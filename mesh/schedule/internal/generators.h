#pragma once

#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {

// One function per name. They get a request whose counts are at least 1 and whose chunks are filled
// in.

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

/// 1F1B with an interlaced vocabulary.
Schedule make_interlaced(const ScheduleRequest& request);

/// Throws Error(kInvalidArgument): a vocabulary is split over at least two actors.
[[noreturn]] void refuse_one_actor(std::string_view schedule);

/// Stages placed, no actions yet.
Schedule empty_schedule(const ScheduleRequest& request, StagePlacement placement);

/// The schedule of the first `microbatches` alone. What is left of a valid schedule is valid: every
/// action keeps what it needs.
Schedule without_late_microbatches(Schedule schedule, int microbatches);

}  // namespace weft::mesh
