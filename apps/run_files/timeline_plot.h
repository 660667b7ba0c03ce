#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/svg/svg.h"
#include "core/trace/trace_event.h"

namespace weft::apps {

/// Draws one step on a time axis. Each device has a row for compute and thinner rows for send and
/// receive below it.
///
/// Colour is the microbatch; shade is the kind of work (forward full, input gradient lighter,
/// weight gradient lightest; update dark, collectives hatched, waiting empty). Overlapping
/// transfers share the height of their row.
Svg draw_timeline(std::span<const DeviceTrace> devices, std::int64_t step,
                  const std::string& title);

/// Returns the step of median duration among the traced ones; 0 if there is none.
std::int64_t median_step(std::span<const DeviceTrace> devices);

}  // namespace weft::apps
