#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// What vector instructions the CPU kernels use. Ordered: a later one includes the earlier.
enum class InstructionSet : std::uint8_t { kBaseline, kAvx2, kAvx512 };

/// "baseline", "avx2", "avx512".
std::string_view to_string(InstructionSet set);

/// The best that this CPU (and the system) can run. Results differ in rounding between instruction
/// sets: a run on several hosts uses the lowest of all.
InstructionSet detect_instruction_set();

}  // namespace weft
