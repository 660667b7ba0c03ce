#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/fusion.h"

namespace weft {

/// Offsets of values in one block of memory. Values with disjoint lifetimes share bytes.
struct MemoryPlan {
  /// Indexed by value; null for values outside the plan.
  std::vector<std::optional<std::size_t>> offsets;
  std::size_t size = 0;
};

/// Plans memory for the outputs of `ops`, run in this order, except values in `elsewhere`. Bytes of
/// a value are reusable after its last use. An in-place op reuses its input if that is the input's
/// last use. Uses first fit; offsets are multiples of 4 KiB for large values and of 64 bytes for
/// small ones.
MemoryPlan plan_memory(const Graph& graph, std::span<const ListedOp> ops,
                       const std::vector<bool>& elsewhere);

}  // namespace weft
