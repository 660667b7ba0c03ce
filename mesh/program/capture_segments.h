#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mesh/program/program.h"

namespace weft::mesh {

/// Instructions [begin, end) of a program, all of them Run and Accumulate: pure device computation,
/// which a device may capture once and replay as a unit.
struct CaptureSegment {
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Number of the segment's work, from 0. Equal for segments that run the same ops on the same
  /// memory, such as microbatches whose tensors have the same buffers.
  std::uint32_t work = 0;
  friend bool operator==(const CaptureSegment&, const CaptureSegment&) = default;
};

/// Returns the maximal segments of at least two instructions, in order. An op that computes a loss
/// is in none: every microbatch's loss has its own place.
///
///   begin F0 | read | run a, run b, accumulate c | start | run d | wait |
///                     work 0: [2, 5)                       (too short)
///   begin F1 | read | run a, run b, accumulate c | ...
///                     work 0: [10, 13)
std::vector<CaptureSegment> find_capture_segments(const Program& program);

}  // namespace weft::mesh
