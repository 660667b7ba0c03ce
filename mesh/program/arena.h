#pragma once

#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Size of a memory piece, and the first and last instruction that need it.
struct Lifetime {
  std::uint64_t bytes = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Offset of each piece, and the size of the arena in bytes.
struct ArenaPlan {
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;
};

/// Places pieces so that pieces with overlapping lifetimes never overlap in memory. Places the
/// largest piece first, each at the lowest offset that is free during its life ("greedy by size",
/// Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020). Offsets are
/// multiples of 64. Throws Error(kInvalidConfig) if the arena would exceed 2^60 bytes.
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace weft::mesh
