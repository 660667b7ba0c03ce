#pragma once

#include <string>
#include <vector>

#include "apps/bench/pipeline/bench_result.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws a group of bars per workload, one bar per arm: speed against the baseline, with a line at
/// the reference (see WorkloadResult).
Svg draw_speeds(const std::vector<WorkloadResult>& results, const std::string& title);

/// Draws step time over that of the fastest signals-only arm against the transfer ratio. Workloads
/// differ in the ratio only. Lines are simulated, points measured, one colour per schedule.
Svg draw_sweep(const std::vector<WorkloadResult>& results, const std::string& title);

}  // namespace weft::apps
