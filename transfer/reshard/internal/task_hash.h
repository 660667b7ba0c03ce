#pragma once

#include <cstdint>

#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Of shape and maps; equal tasks have equal hashes. Not for anything that leaves the process.
std::uint64_t hash_of(const ReshardTask& task);
/// A step of a hash over whole words.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

}  // namespace weft::transfer::internal
