#pragma once

#include <string>
#include <vector>

#include "apps/bench_pipeline/bench_result.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// A group of bars per workload, one bar per arm: speed against the baseline, with a line where the
/// reference is (see WorkloadResult).
Svg draw_speeds(const std::vector<WorkloadResult>& results, const std::string& title);

/// For workloads that differ in their transfer ratio only: time of a step over that of the fastest
/// one with signals only, against the ratio; a line per schedule as simulated, points as measured.
Svg draw_sweep(const std::vector<WorkloadResult>& results, const std::string& title);

}  // namespace weft::apps
