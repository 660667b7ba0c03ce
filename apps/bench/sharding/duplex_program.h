#pragma once

#include <memory>

#include "apps/bench/bench_program.h"

namespace weft::apps {

/// `weft bench duplex`: how much of a mesh's communication hides behind its computation.
std::unique_ptr<BenchProgram> make_duplex_program();

}  // namespace weft::apps
