#pragma once

#include <memory>

#include "apps/bench/bench_program.h"

namespace weft::apps {

/// Makes `weft bench sharding`: measures a GPT layer under layouts of tensor parallelism on hosts
/// with shaped links, and compares with the closed form of the bytes. Simulates larger meshes by
/// playing their programs.
std::unique_ptr<BenchProgram> make_sharding_program();

}  // namespace weft::apps
