#include "mesh/program/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/units.h"

namespace weft::mesh {

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes) {
  constexpr std::uint64_t kAlignment = 64;
  // Far from where sums of bytes overflow, and from what any device has.
  constexpr std::uint64_t kMaxArena = std::uint64_t{1} << 60;
  ArenaPlan plan{std::vector<std::uint64_t>(lifetimes.size(), 0), 0};
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<std::size_t> placed;  // Ascending by offset.
  for (const std::size_t piece : by_size) {
    const Lifetime& life = lifetimes[piece];
    const std::uint64_t bytes = (life.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::uint64_t offset = 0;
    for (const std::size_t other : placed) {
      if (lifetimes[other].last < life.first || life.last < lifetimes[other].first) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + (lifetimes[other].bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    if (offset + bytes > kMaxArena) {
      throw Error(ErrorCode::kInvalidConfig,
                  fmt::format("the activations of a device would take more than {}; take a smaller batch, or a smaller model",
                              format_bytes(kMaxArena)))
          .at("training.batch");
    }
    plan.offsets[piece] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](std::uint64_t value, std::size_t other) { return value < plan.offsets[other]; });
    placed.insert(at, piece);
  }
  return plan;
}

}  // namespace weft::mesh
