#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mesh/program/program.h"

namespace weft::mesh {

/// Instructions [begin, end) of a program, all of them Run and Accumulate: computing that neither
/// the host nor a transfer has a part in, so that a device may record it and be given it again as
/// one.
struct CaptureSegment {
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Equal for segments that do the same on the same memory, as microbatches whose tensors lie in
  /// the same places do; counted from 0 through the program.
  std::uint32_t work = 0;
  friend bool operator==(const CaptureSegment&, const CaptureSegment&) = default;
};

/// The longest segments of at least two instructions, in order.
///
///   begin F0 | read | run a, run b, accumulate c | start | run d | wait |
///                     work 0: [2, 5)                       (too short)
///   begin F1 | read | run a, run b, accumulate c | ...
///                     work 0: [10, 13)
std::vector<CaptureSegment> find_capture_segments(const Program& program);

}  // namespace weft::mesh
