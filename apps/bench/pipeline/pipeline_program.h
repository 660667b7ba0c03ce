#pragma once

#include <memory>

#include "apps/bench/bench_program.h"

namespace weft::apps {

/// Makes `weft bench pipeline`: measures training steps under schedules, resharding strategies and
/// ways of overlap on hosts with shaped links. Compares them with a step whose transfers are all
/// hidden and with a lower bound for any runtime.
std::unique_ptr<BenchProgram> make_pipeline_program();

}  // namespace weft::apps
