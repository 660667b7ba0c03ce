#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/run_files/svg.h"
#include "core/trace/trace_event.h"

namespace weft::apps {

/// Draws one step: for every device a row for compute and, below it, thinner ones for send and
/// receive, on one time axis.
///
/// Colour is the microbatch; shade is the kind of work (forward full, input gradient lighter,
/// weight gradient lightest; update dark, collectives hatched, waiting empty). Transfers that
/// overlap share the height of their row.
Svg draw_timeline(std::span<const DeviceTrace> devices, std::int64_t step,
                  const std::string& title);

/// The step to show: the one whose span is the median of all that the traces hold whole. 0 if they
/// hold none.
std::int64_t typical_step(std::span<const DeviceTrace> devices);

}  // namespace weft::apps
