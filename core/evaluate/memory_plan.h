#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/fusion.h"

namespace weft {

/// Where values live inside one block of memory, so that values that are never needed at the same
/// time share bytes.
struct MemoryPlan {
  /// By value; nothing for values outside the plan.
  std::vector<std::optional<std::size_t>> offsets;
  std::size_t size = 0;
};

/// Places the outputs of `ops` (of values of the graph, run in this order) that are not in
/// `elsewhere`. A value's bytes are free for others after its last use; an op that may work in
/// place does so when its input is not needed any more. First fit; offsets are multiples of 4 KiB
/// for large values and of 64 bytes for small ones. Pure.
MemoryPlan plan_memory(const Graph& graph, std::span<const ListedOp> ops,
                       const std::vector<bool>& elsewhere);

}  // namespace weft
