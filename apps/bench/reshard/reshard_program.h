#pragma once

#include <memory>

#include "apps/bench/bench_program.h"

namespace weft::apps {

/// Makes `weft bench reshard`: measures reshardings on hosts with shaped links, and compares them
/// with the physical limit and other strategies.
std::unique_ptr<BenchProgram> make_reshard_program();

}  // namespace weft::apps
