#pragma once

#include <cstdint>

#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Returns a hash of shape and maps, equal for equal tasks. Use it inside one process only.
std::uint64_t hash_of(const ReshardTask& task);
/// Mixes a whole word into a hash.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace weft::transfer::internal
