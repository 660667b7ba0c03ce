#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/bench/training_step/step_model.h"

namespace weft::test {

/// Writes initial values and inputs to files, so that another system can train on the same data and
/// its losses can be compared:
///   weights.f32   all parameters, one after the other, as f32
///   weights.json  [{"name": ..., "shape": [...], "offset": elements before it}, ...]
///   inputs.bin    for each step the inputs, one after the other
///   inputs.json   [{"name": ..., "dtype": "i32", "shape": [...]}, ...]
/// Throws Error(kUnavailable) if the files cannot be written.
void write_fixed_data(const std::filesystem::path& folder, const StepModel& model,
                      std::uint64_t seed, int steps);

}  // namespace weft::test
