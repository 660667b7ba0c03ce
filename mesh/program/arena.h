#pragma once

#include <cstdint>
#include <vector>

namespace weft::mesh {

/// A piece of memory that is needed from one instruction to another, both included.
struct Lifetime {
  std::uint64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Where each piece lies, and how large the arena must be.
struct ArenaPlan {
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
};

/// Places pieces such that those alive at the same time never overlap: largest first, each at the
/// lowest offset that is free during its life ("greedy by size", Pisarchyk & Lee, "Efficient memory
/// management for deep neural net inference", 2020). Offsets are multiples of 64.
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace weft::mesh
