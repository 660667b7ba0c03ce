#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "apps/cli/reshard_request.h"

namespace weft::apps {

/// Seed of the random reshardings on which forecasts are tested and measured.
inline constexpr std::uint64_t kRandomRequestSeed = 20261122;

/// Draws a resharding of an f32 tensor with `bytes` to about four times that, between meshes of 1
/// to `most_hosts` hosts of 1 to 4 devices, with random specs. The meshes overlap in three of ten
/// cases. In half of the cases one or two hosts have links of a quarter to four times the speed of
/// the others. `rate_bits` is the others' rate in bits per second, in whole Mbit/s; it affects the
/// rates only. Throws Error(kInvalidArgument) for less than 16 KiB.
ReshardRequest random_reshard_request(std::mt19937_64& random, std::int64_t bytes,
                                      std::uint64_t rate_bits, std::size_t most_hosts = 8);

}  // namespace weft::apps
