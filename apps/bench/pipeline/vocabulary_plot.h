#pragma once

#include <string>
#include <vector>

#include "apps/bench/pipeline/bench_result.h"
#include "apps/svg/svg.h"

namespace weft::apps {

/// Draws throughput and the peak memory of the fullest device against the vocabulary. Workloads
/// differ in their vocabulary only. One line per arm; throughput lines are simulated, points
/// measured.
Svg draw_vocabularies(const std::vector<WorkloadResult>& results, const std::string& title);

}  // namespace weft::apps
