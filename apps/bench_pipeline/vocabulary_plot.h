#pragma once

#include <string>
#include <vector>

#include "apps/bench_pipeline/bench_result.h"
#include "apps/run_files/svg.h"

namespace weft::apps {

/// For workloads that differ in their vocabulary only: throughput and, beside it, the peak memory
/// of the fullest device against the vocabulary; a line per arm, throughput as simulated, points as
/// measured.
Svg draw_vocabularies(const std::vector<WorkloadResult>& results, const std::string& title);

}  // namespace weft::apps
