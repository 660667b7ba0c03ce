#pragma once

#include <memory>

#include "apps/bench/bench_program.h"

namespace weft::apps {

/// Makes `weft bench select`: selects from a generated or stored ground set with memory-capped
/// workers, and compares them with greedy selection in one process that holds everything. Also runs
/// the paper's grid.
std::unique_ptr<BenchProgram> make_select_program();

}  // namespace weft::apps
