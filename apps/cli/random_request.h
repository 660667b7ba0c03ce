#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// With which the forecasts of random reshardings are tested, and some of them measured.
inline constexpr std::uint64_t kRandomRequestSeed = 20261122;

/// A tensor of f32 with at least `bytes` (and at most some four times that) from 1 to 8 hosts of 1
/// to 4 devices to as many, under random specs. Three in ten of the meshes overlap; in half of the
/// tasks one or two hosts have links of a quarter to four times the others' speed. `rate_bits`: of
/// the others, in whole Mbit/s; only the words of the rates depend on it. Throws
/// Error(kInvalidArgument) for less than 16 KiB.
ReshardRequest random_reshard_request(std::mt19937_64& random, std::int64_t bytes,
                                      std::uint64_t rate_bits, std::size_t most_hosts = 8);

}  // namespace weft::apps
