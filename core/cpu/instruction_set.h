#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// Vector instructions used by CPU kernels. Ordered: a later set includes the earlier ones.
enum class InstructionSet : std::uint8_t { kBaseline, kAvx2, kAvx512 };

/// Returns "baseline", "avx2" or "avx512".
std::string_view to_string(InstructionSet set);

/// Returns the best instruction set of this CPU and operating system. Rounding differs between
/// sets, so a run on several hosts uses the lowest of all hosts.
InstructionSet detect_instruction_set();

}  // namespace weft
